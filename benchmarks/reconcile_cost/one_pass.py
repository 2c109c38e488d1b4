"""`python -m benchmarks.reconcile_cost.one_pass URI full|incremental`: one pass; prints its figures as JSON."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from kb_reconciler.drift.kinds import RepairTools
from kb_reconciler.passes import Passes, PassReport
from kb_reconciler.state import ReconcilerState
from kb_shared.kafka.producer import DeliveryOutcome, Producer, ProducerMessage
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.observability import logs


class DiscardingProducer(Producer):
    """Discards what is sent: no indexer runs."""

    def __init__(self) -> None:
        """Need no broker."""

    async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
        return [None] * len(messages)


class CommandCount(CommandListener):
    """Count of the commands by name."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()

    def started(self, event: CommandStartedEvent) -> None:
        self.names[event.command_name] += 1

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass


async def still_leader() -> None:
    """Return at once: there is no other replica."""


async def make_pass(uri: str, kind: str) -> dict[str, Any]:
    count = CommandCount()
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True, w="majority", event_listeners=[count]) as client:
        database = client["benchmark"]
        requests = IndexRequests(database, DiscardingProducer(), topic_prefix="", source="/benchmark")
        passes = Passes(RepairTools(database, requests), grace=timedelta(0))
        await client.admin.command("ping")
        count.names.clear()
        began, cpu = perf_counter(), process_time()
        report = await _make(passes, kind)
        seconds, cpu_s = perf_counter() - began, process_time() - cpu
    return {
        "seconds": round(seconds, 3),
        "reconciler_cpu_s": round(cpu_s, 3),
        "commands": count.names.total(),
        "peak_memory_mb": _peak_memory_mb(),
        "found": dict(report.total.found),
        "repaired": dict(report.total.repaired),
    }


def _peak_memory_mb() -> float:
    # Not `getrusage`, which includes the memory of the process that started this one.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise SystemExit("/proc/self/status has no VmHWM: this benchmark needs Linux")


async def _make(passes: Passes, kind: str) -> PassReport:
    if kind == "full":
        return await passes.full(still_leader)
    return await passes.incremental(ReconcilerState(token=1, compared_until=datetime.now(UTC)), still_leader)


if __name__ == "__main__":
    logs.configure("benchmark", "ERROR")
    print(json.dumps(asyncio.run(make_pass(*sys.argv[1:3]))))
