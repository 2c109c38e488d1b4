"""Commands of MongoDB that fail in a way that a test chooses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from pymongo import AsyncMongoClient

WRITE_CONCERN_FAILED: Final = 64
NO_SUCH_TRANSACTION: Final = 251
UNKNOWN_WRITE_CONCERN: Final = 79
"""Code of an error after which the driver does not repeat a commit: the caller hears of it at once."""


@asynccontextmanager
async def unacknowledged(
    client: AsyncMongoClient[dict[str, Any]],
    *commands: str,
    namespace: str | None = None,
    code: int = WRITE_CONCERN_FAILED,
    times: int = 1,
) -> AsyncIterator[None]:
    """Have the next `times` of `commands`, on one collection if `namespace` names it, end in a write concern error.

    They are carried out. That is what a caller sees of a write that no majority has acknowledged: it may be there, and
    it may be lost.
    """
    data: dict[str, Any] = {"failCommands": list(commands), "writeConcernError": {"code": code, "errmsg": "a test"}}
    if namespace is not None:
        data["namespace"] = namespace
    await _configure(client, {"times": times}, data)
    try:
        yield
    finally:
        await _configure(client, "off", {})


@asynccontextmanager
async def transaction_ended(
    client: AsyncMongoClient[dict[str, Any]], command: str, *, namespace: str, times: int = 1
) -> AsyncIterator[None]:
    """Have the next `times` of `command` on a collection fail as in a transaction that the server has ended."""
    data: dict[str, Any] = {
        "failCommands": [command],
        "namespace": namespace,
        "errorCode": NO_SUCH_TRANSACTION,
        "errorLabels": ["TransientTransactionError"],
    }
    await _configure(client, {"times": times}, data)
    try:
        yield
    finally:
        await _configure(client, "off", {})


@asynccontextmanager
async def failing_for(
    client: AsyncMongoClient[dict[str, Any]], command: str, *, app_name: str, code: int, after_s: float = 0
) -> AsyncIterator[None]:
    """Have `command` fail for the clients with this name, `after_s` after it came."""
    data: dict[str, Any] = {"failCommands": [command], "errorCode": code, "appName": app_name}
    if after_s:
        data |= {"blockConnection": True, "blockTimeMS": int(after_s * 1000)}
    await _configure(client, "alwaysOn", data)
    try:
        yield
    finally:
        await _configure(client, "off", {})


async def _configure(client: AsyncMongoClient[dict[str, Any]], mode: Any, data: dict[str, Any]) -> None:
    await client.admin.command({"configureFailPoint": "failCommand", "mode": mode, "data": data})
