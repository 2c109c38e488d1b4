import asyncio
import json
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.integration.kafka.support import Stream
from tests.waiting import DEADLINE_S, until

WORKER = Path(__file__).parent / "worker.py"
JOBS = 600
SEED = 20


class Workers:
    """Processes of one consumer group, and what they noted."""

    def __init__(self, stream: Stream, journal: Path) -> None:
        self._stream = stream
        self._journal = journal
        self.processes: list[Process] = []

    async def start(self, **environment: str) -> Process:
        with self._journal.with_suffix(f".{len(self.processes)}.log").open("wb") as log:
            process = await self._execute(log, environment)
        self.processes.append(process)
        assert process.stdout is not None
        # From here on it takes a SIGTERM as it should.
        assert await process.stdout.readline() == b"ready\n"
        return process

    async def _execute(self, log: BinaryIO, environment: dict[str, str]) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(WORKER),
            self._stream.bootstrap,
            self._stream.topic,
            self._stream.group,
            str(self._journal),
            "kafka" if self._stream.on_kafka else "local",
            env={**os.environ, **environment},
            stdout=PIPE,
            stderr=log,
        )

    def done(self) -> list[tuple[str, int]]:
        """The jobs that were done, in order, repeated ones each time."""
        return [(entry["key"], entry["number"]) for entry in self._entries()]

    async def moment(self) -> "GroupProgress":
        # In this order: whatever is noted in between is not among what was committed, unless it is done again.
        committed = await self._stream.committed_offsets()
        return GroupProgress(committed, len(self._entries()))

    def list_repeated_jobs(self, moment: "GroupProgress") -> list[tuple[str, int]]:
        """The jobs that were committed before `moment` and done after it."""
        return [
            (entry["key"], entry["number"])
            for entry in self._entries()[moment.done :]
            if entry["offset"] < moment.committed[entry["partition"]]
        ]

    def _entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._journal.read_text().splitlines()] if self._journal.exists() else []


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """Progress of a group."""

    committed: Mapping[int, int]
    done: int


@asynccontextmanager
async def workers(stream: Stream, journal: Path) -> AsyncIterator[Workers]:
    group = Workers(stream, journal)
    try:
        yield group
    finally:
        for process in group.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def stop(process: Process) -> int:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(DEADLINE_S):
        return await process.wait()


def some_jobs(rng: random.Random) -> list[tuple[str, str]]:
    """(key, number) with half of them for one busy group; the numbers of each key rise by one."""
    last: Counter[str] = Counter()
    jobs = []
    for _ in range(JOBS):
        group = "hot" if rng.random() < 0.5 else f"kb{rng.randrange(20)}"
        key = f"{group}/document-{rng.randrange(30)}"
        last[key] += 1
        jobs.append((key, str(last[key])))
    return jobs


@pytest.mark.long
async def test_killing_joining_and_leaving_lose_no_job_and_keep_the_order_of_each_key(
    stream: Stream, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    jobs = some_jobs(rng)
    await stream.publish(jobs)
    async with workers(stream, tmp_path / "journal") as group:
        first = [await group.start(), await group.start()]
        rng.shuffle(first)
        await until(partial(committed_at_least, stream, JOBS // 6))
        first[0].kill()
        await first[0].wait()
        one_was_killed = await group.moment()
        await group.start()
        await until(partial(committed_at_least, stream, JOBS // 2))
        assert await stop(first[1]) == 0
        one_has_left = await group.moment()
        wanted = {(key, int(number)) for key, number in jobs}
        await until(lambda: set(group.done()) == wanted)
        # What was done but not committed by those who went is done again before it is committed.
        await stream.until_committed(JOBS)
        for process in group.processes:
            if process.returncode is None:
                assert await stop(process) == 0

        done = group.done()
        completed = list(dict.fromkeys(done))
        for key in {key for key, _ in wanted}:
            numbers = [number for other, number in completed if other == key]
            assert numbers == sorted(numbers), f"{key} was first completed in the order {numbers}"
        # A crash repeats what was begun and not committed, not whole partitions.
        for moment in (one_was_killed, one_has_left):
            assert group.list_repeated_jobs(moment) == []


async def committed_at_least(stream: Stream, records: int) -> bool:
    return await stream.committed() >= records


async def test_dying_at_the_worst_moments_loses_nothing(stream: Stream, tmp_path: Path) -> None:
    async def die_at(failpoint: str) -> None:
        # A topic and a group for each, so that they can wait for their dead at the same time.
        own = replace(stream, prefix=f"{stream.prefix}{failpoint.partition(':')[0]}.")
        await own.create()
        # Enough that some are under way at the first commit.
        await own.publish([(f"a/{n}", "1") for n in range(100)])
        async with workers(own, tmp_path / failpoint) as group:
            victim = await group.start(KB_FAILPOINT=failpoint)
            async with asyncio.timeout(DEADLINE_S):
                assert await victim.wait() == -signal.SIGKILL
            heir = await group.start()
            await own.until_committed(100)
            assert await stop(heir) == 0
            assert len(set(group.done())) == 100

    await asyncio.gather(*map(die_at, ("consumer.after_handle:5", "consumer.before_commit", "consumer.after_commit")))
