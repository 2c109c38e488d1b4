"""Quotas of an organization. The refusal names the limit and the setting that raises it."""

from collections.abc import Awaitable, Callable

from kb_shared.errors import RequestError


async def require_quota(
    count: Callable[[], Awaitable[int]], limit: int, *, things: str, setting: str, remedy: str = "Delete one first"
) -> None:
    """Raise RequestError 409 `quota-exceeded` if the limit is reached.

    Concurrent requests can exceed the limit by their number, which is small.

    Args:
        count: returns the present number; not called if there is no limit.
        limit: greatest number; 0 means no limit.
        things: plural noun for the message, such as `prompts`.
        setting: the setting that raises the limit.
        remedy: action that the organization can take itself.
    """
    if limit and await count() >= limit:
        raise RequestError(
            409,
            "quota-exceeded",
            f"This organization has reached its limit of {limit} {things}. {remedy}, or ask the operator of this "
            f"deployment to raise {setting}.",
            extra={"limit": limit, "setting": setting},
        )
