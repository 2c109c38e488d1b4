"""Limits how many requests of one kind are in progress, in all and of one organization. Others are refused at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.types import Scope

from kb_shared.errors import RequestError
from kb_shared.http.request_context import hold_until_answered

RETRY_AFTER_S: Final = 1.0


class ConcurrencyLimit:
    """Counts the requests of one kind in this process."""

    def __init__(self, kind: str, limit: int, *, limit_of_organization: int) -> None:
        """Begin without requests.

        Args:
            kind: plural noun for messages, such as `requests`.
            limit: greatest number in all.
            limit_of_organization: greatest number of one organization.
        """
        self._kind = kind
        self._limit = limit
        self._limit_of_organization = limit_of_organization
        self._counts: Counter[str] = Counter()

    def hold_request_slot(self, scope: Scope, organization_id: str) -> None:
        """Count one more request of an organization, until the request of `scope` has been answered.

        Raises:
            RequestError: 429 `too-many-at-once`, the organization has too many; 503 `overloaded`, there are too many.
        """
        hold_until_answered(scope, self.request_slot(organization_id))

    @contextmanager
    def request_slot(self, organization_id: str) -> Iterator[None]:
        """Count one more request of an organization inside the context. Raises as `hold_request_slot`."""
        self._check(organization_id)
        self._counts[organization_id] += 1
        try:
            yield
        finally:
            self._counts[organization_id] -= 1
            if not self._counts[organization_id]:
                del self._counts[organization_id]

    def _check(self, organization_id: str) -> None:
        if self._counts[organization_id] >= self._limit_of_organization:
            detail = (
                f"This organization has {self._limit_of_organization} {self._kind} in progress, which is the limit. "
                "Try again in a second, and send fewer at the same time."
            )
            raise RequestError(429, "too-many-at-once", detail, retry_after_s=RETRY_AFTER_S)
        if self._counts.total() >= self._limit:
            detail = (
                f"This service has {self._limit} {self._kind} in progress, which is the limit; try again in a second."
            )
            raise RequestError(503, "overloaded", detail, retry_after_s=RETRY_AFTER_S)
