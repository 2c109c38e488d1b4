"""Searches and events in open loops against one target."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any, Final

import aiohttp
from aiokafka.errors import KafkaError

from benchmarks.corpus.documents import RealDocument
from benchmarks.load.arrivals import poisson_times
from benchmarks.load.open_loop import OpenLoop
from benchmarks.load.population import DocumentPopulation, LoadPartition, PlannedEvent
from benchmarks.load.queries import QueryPool
from benchmarks.load.searchable import SearchableSampler
from benchmarks.load.statistics import CallStatistics
from benchmarks.load.target import LoadTarget

_PRELOAD_BATCH: Final = 200
_POLL_S: Final = 0.5
_PROBES_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class LoadShape:
    """Describes the load.

    Attributes:
        event_mix: weights of `population.EVENT_KINDS`.
        duplicates: share of events that are published twice.
        modes: weights of `queries.MODES`.
        filtered: share of searches with a metadata filter.
        skew: exponent of Zipf's law for KBs, documents and queries.
        samples_per_s: limit of texts whose time to searchable is measured.
        patience_s: time after which a text counts as not found.
    """

    searches_per_s: float
    events_per_s: float
    event_mix: Mapping[str, float]
    duplicates: float
    modes: Mapping[str, float]
    filtered: float
    skew: float
    queries_of_kb: int
    samples_per_s: float
    patience_s: float
    max_in_flight: int
    seed: int


@dataclass(slots=True)
class LoadWorkload:
    """Load on one target. `preload` comes first, then `run`. For `steady_at` see `DocumentPopulation`."""

    target: LoadTarget
    shape: LoadShape
    partitions: Sequence[LoadPartition]
    sources: Sequence[RealDocument]
    run_id: str = "load"
    steady_at: int | None = None
    searches: dict[str, CallStatistics] = field(default_factory=lambda: defaultdict(CallStatistics))
    events: dict[str, CallStatistics] = field(default_factory=lambda: defaultdict(CallStatistics))
    duplicates: int = 0
    unacknowledged: list[PlannedEvent] = field(default_factory=list)
    """Events that may not have been written; an upstream has to publish them again."""
    population: DocumentPopulation = field(init=False)
    queries: QueryPool = field(init=False)
    sampler: SearchableSampler = field(init=False)
    loops: dict[str, OpenLoop] = field(init=False)
    took_s: float = 0.0
    _measured_from: float = 0.0
    _dice: random.Random = field(init=False)
    _search_dice: random.Random = field(init=False)
    _followers: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        shape = self.shape
        self._dice = random.Random(f"calls/{shape.seed}")
        self._search_dice = random.Random(f"searched/{shape.seed}")
        self.population = DocumentPopulation(
            self.partitions,
            self.sources,
            shape.event_mix,
            shape.skew,
            random.Random(f"documents/{shape.seed}"),
            run_id=self.run_id,
            steady_at=self.steady_at,
        )
        self.queries = QueryPool(
            queries_of_kb=shape.queries_of_kb,
            skew=shape.skew,
            modes=shape.modes,
            filtered=shape.filtered,
            dice=random.Random(f"queries/{shape.seed}"),
        )
        self.sampler = SearchableSampler(self.target, shape.samples_per_s, shape.patience_s)
        self.loops = {name: OpenLoop(shape.max_in_flight) for name in ("searches", "events")}

    async def preload(self, number: int) -> None:
        """Publish documents without a schedule, and return when all of them are indexed."""
        for start in range(0, number, _PRELOAD_BATCH):
            planned = [
                self.population.plan_creation(self.population.choose_partition())
                for _ in range(min(_PRELOAD_BATCH, number - start))
            ]
            await self.target.events.publish_all([each.event for each in planned])
        for partition in self.partitions:
            await self._until_indexed(partition)
            self.queries.fill(partition, self.population.current_texts(partition))

    async def run(self, seconds: float, *, warm_up_s: float = 0.0) -> None:
        """Make calls for so long; what arrives during the warm-up is not counted."""
        began = perf_counter()
        self._measured_from = began + warm_up_s
        rates = {"searches": self.shape.searches_per_s, "events": self.shape.events_per_s}
        acts = {"searches": self._search, "events": self._publish}
        async with asyncio.TaskGroup() as group:
            for name, loop in self.loops.items():
                dice = random.Random(f"{name}/{self.shape.seed}")
                times = poisson_times(rates[name], seconds=warm_up_s + seconds, dice=dice)
                group.create_task(loop.run(times, acts[name], began=began))
        self.took_s = max(seconds, perf_counter() - self._measured_from)
        await asyncio.gather(*self._followers)

    async def _search(self, due: float) -> None:
        partition = self.population.choose_partition(self._search_dice)
        body = self.queries.next_request(partition)
        error = None
        try:
            status, answer = await self.target.search(partition, body)
            if status != 200:
                error = f"{status} {answer.get('type', '')}".strip()
        except (aiohttp.ClientError, TimeoutError, ValueError) as failure:
            error = type(failure).__name__
        self._record(self.searches[body["mode"]], due, error)

    async def _publish(self, due: float) -> None:
        planned = self.population.plan_event()
        # The time of the event is its scheduled time: what the system measures from it includes the generator's lag.
        occurred_at = datetime.now(UTC) - timedelta(seconds=perf_counter() - due)
        times = 2 if self._dice.random() < self.shape.duplicates else 1
        self.duplicates += times - 1
        if self.sampler.wants(planned) and len(self._followers) < _PROBES_AT_ONCE:
            self._follow(planned, due)
        error = None
        try:
            for _ in range(times):
                await self.target.events.publish(planned.event, time=occurred_at)
        except KafkaError as failure:
            error = type(failure).__name__
            self.unacknowledged.append(planned)
        self._record(self.events[planned.kind], due, error)

    def _follow(self, planned: PlannedEvent, due: float) -> None:
        task = asyncio.create_task(self.sampler.follow(planned, due, measured=due >= self._measured_from))
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)

    def _record(self, statistics: CallStatistics, due: float, error: str | None) -> None:
        if due < self._measured_from:
            return
        if error is None:
            statistics.latencies.record(perf_counter() - due)
        else:
            statistics.errors[error] += 1

    async def _until_indexed(self, partition: LoadPartition) -> None:
        wanted = len(self.population.expected_members(partition))
        path = f"/knowledge-bases/{partition.kb_id}"
        indexed = 0
        while indexed < wanted:
            await asyncio.sleep(_POLL_S)
            indexed = (await self.target.call(partition.organization_id, "GET", path))["document_count"]

    def progress(self) -> str:
        """Return one line about what has been measured so far."""
        searched = sum(each.count for each in self.searches.values())
        published = sum(each.count for each in self.events.values())
        errors = sum(each.errors.total() for each in (*self.searches.values(), *self.events.values()))
        worst = max((each.latencies.percentile_ms(99) for each in self.searches.values()), default=0.0)
        lag = max(loop.lag.percentile_ms(99) for loop in self.loops.values())
        return (
            f"{searched} searches (p99 {worst:g} ms), {published} events, {errors} errors; "
            f"p99 to searchable {self.sampler.latencies.percentile_ms(99):g} ms; generator late by {lag:g} ms (p99)"
        )

    def problems(self, *, max_lag_ms: float) -> list[str]:
        """Return why the figures are not valid; nothing if they are."""
        return [
            f"{name}: {problem}"
            for name, loop in self.loops.items()
            for problem in loop.problems(max_lag_ms=max_lag_ms)
        ]

    def figures(self, *, seconds: float) -> dict[str, Any]:
        def describe(statistics: Mapping[str, CallStatistics]) -> dict[str, Any]:
            return {
                name: each.figures(arrived_in_s=seconds, answered_in_s=self.took_s)
                for name, each in sorted(statistics.items())
            }

        return {
            "searches": describe(self.searches),
            "events": describe(self.events),
            "duplicates_published": self.duplicates,
            "time_to_searchable": self.sampler.figures(),
            "generator": {name: loop.figures() for name, loop in self.loops.items()},
            "curves_ms": {
                **{f"search {mode}": each.latencies.curve_ms() for mode, each in sorted(self.searches.items())},
                "time to searchable": self.sampler.latencies.curve_ms(),
            },
        }
