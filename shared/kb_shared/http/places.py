"""How many of one thing there may be at once, in all and of one organization. What is beyond is refused at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.types import Scope

from kb_shared.errors import RequestError
from kb_shared.http.request_context import hold

RETRY_AFTER_S: Final = 1.0


class Places:
    """Counts what is under way in this process."""

    def __init__(self, what: str, most: int, most_of_organization: int) -> None:
        """Make free places.

        Args:
            what: takes them, in the plural, for messages.
            most: in all.
            most_of_organization: of those.
        """
        self._what = what
        self._most = most
        self._most_of_organization = most_of_organization
        self._taken: Counter[str] = Counter()

    def occupy(self, scope: Scope, organization_id: str) -> None:
        """Count one more of an organization, until the request of `scope` has been answered.

        Raises:
            RequestError: 429 `too-many-at-once`, the organization has too many; 503 `overloaded`, there are too many.
        """
        hold(scope, self.occupied(organization_id))

    @contextmanager
    def occupied(self, organization_id: str) -> Iterator[None]:
        """Count one more of an organization. Raises what `take` does."""
        self._check(organization_id)
        self._taken[organization_id] += 1
        try:
            yield
        finally:
            self._taken[organization_id] -= 1
            if not self._taken[organization_id]:
                del self._taken[organization_id]

    def _check(self, organization_id: str) -> None:
        if self._taken[organization_id] >= self._most_of_organization:
            detail = (
                f"This organization may have {self._most_of_organization} {self._what} under way at once; try again "
                "after Retry-After, and send fewer at the same time."
            )
            raise RequestError(429, "too-many-at-once", detail, retry_after_s=RETRY_AFTER_S)
        if self._taken.total() >= self._most:
            detail = f"This service works on {self._most} {self._what} already; try again after Retry-After."
            raise RequestError(503, "overloaded", detail, retry_after_s=RETRY_AFTER_S)
