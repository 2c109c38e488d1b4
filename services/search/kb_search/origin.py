"""Says where a request comes from, for the query log, runs and insights."""

from typing import Annotated

from fastapi import Header

from kb_contracts.api.search import SearchOrigin
from kb_shared.mongo.query_log import Origin

OriginHeader = Annotated[
    SearchOrigin,
    Header(
        alias="X-KB-Origin",
        description="Kind of client, for the query log and insights. `dashboard` means the same as `console`. Default: "
        "`sdk`.",
    ),
]


def to_origin(header: SearchOrigin) -> Origin:
    return "console" if header == "dashboard" else header
