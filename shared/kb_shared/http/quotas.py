"""How many of a thing an organization may have: what is refused says which limit it is and how to raise it."""

from collections.abc import Awaitable, Callable

from kb_shared.errors import RequestError


async def require_quota(
    count: Callable[[], Awaitable[int]], limit: int, *, things: str, setting: str, remedy: str = "Delete one first"
) -> None:
    """Raise RequestError 409 `quota-exceeded` if there are as many as there may be.

    Requests at the same moment can exceed it by their number, which are few.

    Args:
        count: how many there are; not asked where there is no limit.
        limit: how many there may be; 0 is no limit.
        things: as the answer calls them, such as `prompts`.
        setting: that raises the limit.
        remedy: what the organization can do itself.
    """
    if limit and await count() >= limit:
        raise RequestError(
            409,
            "quota-exceeded",
            f"This organization has {limit} {things}, the most there may be. {remedy}, or ask the operator of this "
            f"deployment to raise {setting}.",
            extra={"limit": limit, "setting": setting},
        )
