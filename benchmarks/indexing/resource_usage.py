"""Measures the CPU and the commands of mongod, the embedding server and all processes between two snapshots."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import psutil
from pymongo import AsyncMongoClient

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
"""Commands of the drivers, the search node's change stream and this benchmark: no document causes them."""


@dataclass(frozen=True, slots=True)
class UsageSnapshot:
    commands: Mapping[str, int]
    documents_examined: int
    cpu_s: Mapping[str, float]
    embed_calls: int
    embed_inputs: int


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """The difference of two snapshots."""

    commands: dict[str, int]
    documents_examined: int
    cpu_s: dict[str, float]
    """By process, the benchmark's own included: two cores have 2 s a second for all of them."""
    embed_calls: int
    embed_inputs: int

    def figures(self, *, documents: int, chunks: int) -> dict[str, Any]:
        """Return the figures as the output shows them."""
        return {
            "indexer_cpu_s": self.cpu_s["kb-indexer"],
            "cpu_s": self.cpu_s,
            "cpu_ms_per_doc": round(1000 * sum(self.cpu_s.values()) / documents, 2),
            "embed_calls": self.embed_calls,
            "embed_inputs": self.embed_inputs,
            "mongo_commands_per_doc": round(sum(self.commands.values()) / documents, 2),
            "mongo_commands_per_doc_by_name": {
                name: round(count / documents, 3) for name, count in self.commands.items()
            },
            "mongo_docs_examined_per_chunk": round(self.documents_examined / chunks, 3),
        }


async def take_snapshot(stack: Stack, mongod: AsyncMongoClient[dict[str, Any]]) -> UsageSnapshot:
    status = await mongod.admin.command("serverStatus")
    async with httpx.AsyncClient() as http:
        model = (await http.get(stack.models_api_base.removesuffix("/v1") + "/admin/hash")).raise_for_status().json()
    return UsageSnapshot(
        commands={
            name: counts["total"] for name, counts in status["metrics"]["commands"].items() if isinstance(counts, dict)
        },
        documents_examined=status["metrics"]["queryExecutor"]["scannedObjects"],
        cpu_s=cpu_s_of({server.name: server.pid for server in stack.servers} | {"benchmark": os.getpid()}),
        embed_calls=model["calls"],
        embed_inputs=model["inputs"],
    )


def usage_between(before: UsageSnapshot, after: UsageSnapshot) -> ResourceUsage:
    counts = {name: total - before.commands.get(name, 0) for name, total in after.commands.items()}
    return ResourceUsage(
        commands={name: count for name, count in sorted(counts.items()) if count and name not in BACKGROUND},
        documents_examined=after.documents_examined - before.documents_examined,
        cpu_s={name: round(total - before.cpu_s[name], 2) for name, total in after.cpu_s.items()},
        embed_calls=after.embed_calls - before.embed_calls,
        embed_inputs=after.embed_inputs - before.embed_inputs,
    )


def cpu_s_of(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the CPU seconds so far of each process and its threads, with those of its children that are not listed."""
    return {
        name: _cpu_s(process) + sum(_cpu_s(child) for child in process.children() if child.pid not in pids.values())
        for name, process in ((name, psutil.Process(pid)) for name, pid in pids.items())
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
