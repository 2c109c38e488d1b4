"""Commands of MongoDB that are carried out and then answered with a write concern error.

That is what a caller sees of a write that no majority has acknowledged: it may be there, and it may be lost.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from pymongo import AsyncMongoClient

WRITE_CONCERN_FAILED: Final = 64
UNKNOWN_WRITE_CONCERN: Final = 79
"""Of those that the driver does not repeat a commit for: the caller hears of it at once."""


@asynccontextmanager
async def unacknowledged(
    client: AsyncMongoClient[dict[str, Any]],
    *commands: str,
    namespace: str | None = None,
    code: int = WRITE_CONCERN_FAILED,
    times: int = 1,
) -> AsyncIterator[None]:
    """Have the next `times` of `commands`, on one collection if `namespace` names one, fail in that way."""
    data: dict[str, Any] = {"failCommands": list(commands), "writeConcernError": {"code": code, "errmsg": "a test"}}
    if namespace is not None:
        data["namespace"] = namespace
    await _configure(client, {"times": times}, data)
    try:
        yield
    finally:
        await _configure(client, "off", {})


async def _configure(client: AsyncMongoClient[dict[str, Any]], mode: Any, data: dict[str, Any]) -> None:
    await client.admin.command({"configureFailPoint": "failCommand", "mode": mode, "data": data})
