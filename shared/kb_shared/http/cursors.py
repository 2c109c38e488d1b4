"""Cursors of lists that grow without bound: where a page ended, signed, for one list of one organization.

A page after a cursor costs as much as the first one, and shows nothing twice when rows are added meanwhile, both unlike
`skip`.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias, TypeVar

from fastapi import Query

from kb_shared.errors import RequestError
from kb_shared.http.problems import invalid_field
from kb_shared.secrets.peppers import Peppers

T = TypeVar("T")

_SIGNATURE_BYTES: Final = 16
_PURPOSE: Final = b"cursor of a list"

CursorParameter: TypeAlias = Annotated[
    str | None,
    Query(
        max_length=1_000,
        description="`next_cursor` of the page before, with the same filters. Instead of `skip`. Default: first page.",
    ),
]


@dataclass(frozen=True, slots=True)
class CursorScope:
    """List that a cursor is of."""

    organization_id: str
    name: str
    filters: Mapping[str, object]
    """Everything else that decides what is listed."""


class Cursors:
    """Signs and reads cursors, with a key that is derived from the pepper. `create_app` provides it."""

    def __init__(self, peppers: Peppers) -> None:
        self._keys = [hmac.digest(pepper.encode(), _PURPOSE, "sha256") for pepper in peppers]

    def create(self, scope: CursorScope, position: str) -> str:
        """Return the cursor of the page after `position`."""
        signature = _sign(self._keys[0], scope, position)
        return base64.urlsafe_b64encode(signature + position.encode()).rstrip(b"=").decode()

    def create_next(
        self, scope: CursorScope, found: Sequence[T], *, limit: int, position: Callable[[T], object]
    ) -> str | None:
        """Return the cursor of the page after `found`; None if that was the last one.

        Args:
            scope: list that was asked for.
            found: items of the page.
            limit: greatest number of items of the page.
            position: returns the position of an item, as `read` returns it.
        """
        return self.create(scope, str(position(found[-1]))) if len(found) == limit else None

    def read(self, scope: CursorScope, cursor: str | None, *, skip: int = 0) -> str | None:
        """Return the position of a cursor; None without one.

        Raises:
            RequestError: 422 unless this system made the cursor for this list; also if `skip` is given, too.
        """
        if cursor is None:
            return None
        if skip:
            raise invalid_field("skip", "must be left out with a cursor")
        try:
            decoded = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            signature, position = decoded[:_SIGNATURE_BYTES], decoded[_SIGNATURE_BYTES:].decode()
        except (binascii.Error, ValueError):
            raise _unusable() from None
        if not any(hmac.compare_digest(signature, _sign(key, scope, position)) for key in self._keys):
            raise _unusable()
        return position


def _sign(key: bytes, scope: CursorScope, position: str) -> bytes:
    filters = json.dumps(scope.filters, sort_keys=True, default=str)
    signed = json.dumps([scope.organization_id, scope.name, filters, position])
    return hmac.digest(key, signed.encode(), hashlib.sha256)[:_SIGNATURE_BYTES]


def _unusable() -> RequestError:
    return invalid_field("cursor", "must be `next_cursor` of a page of this list, with the same filters")
