"""How many of one thing there may be at once, in all and of one organization. What is beyond is refused at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kb_shared.errors import RequestError

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
        self._taken = 0
        self._taken_by: Counter[str] = Counter()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Count one more. Raises RequestError 503 if there are too many."""
        if self._taken >= self._most:
            detail = f"This service works on {self._most} {self._what} already; try again after Retry-After."
            raise RequestError(503, "overloaded", detail, retry_after_s=RETRY_AFTER_S)
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    @contextmanager
    def taken_by(self, organization_id: str) -> Iterator[None]:
        """Count one more of an organization. Raises RequestError 429 if it has too many."""
        if self._taken_by[organization_id] >= self._most_of_organization:
            detail = (
                f"This organization may have {self._most_of_organization} {self._what} under way at once; try again "
                "after Retry-After, and send fewer at the same time."
            )
            raise RequestError(429, "too-many-at-once", detail, retry_after_s=RETRY_AFTER_S)
        self._taken_by[organization_id] += 1
        try:
            yield
        finally:
            self._taken_by[organization_id] -= 1
            if not self._taken_by[organization_id]:
                del self._taken_by[organization_id]
