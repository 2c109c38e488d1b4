"""Keeps two editors from overwriting each other: `ETag` of what was read, `If-Match` of what may be overwritten.

The comparison is part of the write in MongoDB, so that of two requests with the same ETag one succeeds.
"""

import re
from collections.abc import Set as AbstractSet
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, Header
from starlette.responses import Response

from kb_shared.errors import RequestError

_TAG: Final = re.compile(r'(?:W/)?"[^"\x00-\x20\x7f]*"')
_VERSION: Final = re.compile(r'"(\d{1,18})"')

ExpectedVersions: TypeAlias = AbstractSet[int] | None
"""Versions that may be overwritten; None: any."""


def set_etag(response: Response, version: int) -> None:
    """Name the version of what a response shows."""
    response.headers["ETag"] = f'"{version}"'


async def _read_if_match(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            max_length=1_000,
            description="`ETag` of the version that may be overwritten. If it was changed since, the answer is 412 "
            "`precondition-failed`. Default: any version.",
        ),
    ] = None,
) -> ExpectedVersions:
    return parse_if_match(if_match)


IfMatch: TypeAlias = Annotated[ExpectedVersions, Depends(_read_if_match)]


def parse_if_match(header: str | None) -> ExpectedVersions:
    """Return the versions that a header names. Raises RequestError 422."""
    if header is None or header.strip() == "*":
        return None
    tags = [tag.strip() for tag in header.split(",")]
    if not all(_TAG.fullmatch(tag) for tag in tags):
        raise RequestError(
            422,
            "validation-error",
            'Send the ETag of the last answer in If-Match, with its quotes, such as "3".',
            extra={"fields": [{"field": "If-Match", "message": 'must be ETags such as "3", or *'}]},
        )
    # A weak tag, and one that this system has not given, match nothing.
    return frozenset(int(found[1]) for tag in tags if (found := _VERSION.fullmatch(tag)))


def require_version(version: int, expected: ExpectedVersions, *, what: str) -> None:
    """Raise RequestError 412 unless `version` may be overwritten."""
    if expected is not None and version not in expected:
        raise precondition_failed(what)


def precondition_failed(what: str) -> RequestError:
    return RequestError(
        412,
        "precondition-failed",
        f"This {what} was changed since you read it: GET it again, repeat your change on it, and send its new ETag in "
        "If-Match.",
    )
