"""What mongod, the indexer and the embedding server did between two moments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import psutil
from pymongo import AsyncMongoClient

from kb_local.server import Server
from kb_local.stack import Stack

BACKGROUND: Final = frozenset(
    {
        "hello",
        "isMaster",
        "ping",
        "getMore",
        "serverStatus",
        "replSetGetStatus",
        "endSessions",
        "killCursors",
        "collStats",
    }
)
"""Of the drivers, of the search node's change stream and of this benchmark: not caused by a document."""


@dataclass(frozen=True, slots=True)
class Moment:
    commands: Mapping[str, int]
    documents_examined: int
    mongod_cpu_s: float
    indexer_cpu_s: float
    embed_calls: int
    embed_inputs: int


@dataclass(frozen=True, slots=True)
class Spent:
    """The difference of two moments."""

    commands: dict[str, int]
    documents_examined: int
    mongod_cpu_s: float
    indexer_cpu_s: float
    embed_calls: int
    embed_inputs: int


async def look(stack: Stack, mongod: AsyncMongoClient[dict[str, Any]]) -> Moment:
    status = await mongod.admin.command("serverStatus")
    async with httpx.AsyncClient() as http:
        model = (await http.get(stack.models_api_base.removesuffix("/v1") + "/admin/hash")).raise_for_status().json()
    assert stack.mongod is not None, "the benchmark launches its own mongod"
    return Moment(
        commands={
            name: counts["total"] for name, counts in status["metrics"]["commands"].items() if isinstance(counts, dict)
        },
        documents_examined=status["metrics"]["queryExecutor"]["scannedObjects"],
        mongod_cpu_s=_cpu_s(stack.mongod),
        indexer_cpu_s=_cpu_s(stack.services["kb_indexer"]),
        embed_calls=model["calls"],
        embed_inputs=model["inputs"],
    )


def spent(before: Moment, after: Moment) -> Spent:
    counts = {name: total - before.commands.get(name, 0) for name, total in after.commands.items()}
    return Spent(
        commands={name: count for name, count in sorted(counts.items()) if count and name not in BACKGROUND},
        documents_examined=after.documents_examined - before.documents_examined,
        mongod_cpu_s=round(after.mongod_cpu_s - before.mongod_cpu_s, 2),
        indexer_cpu_s=round(after.indexer_cpu_s - before.indexer_cpu_s, 2),
        embed_calls=after.embed_calls - before.embed_calls,
        embed_inputs=after.embed_inputs - before.embed_inputs,
    )


def _cpu_s(server: Server) -> float:
    times = psutil.Process(server.pid).cpu_times()
    return float(times.user + times.system)
