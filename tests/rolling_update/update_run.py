"""Runs two versions of all services at once: an update and the way back, under load, checked by the oracle."""

import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final
from uuid import uuid4

import httpx

from kb_local.ports import NO_TLS
from kb_local.stack import Stack
from kb_local.zygote import PRELOADED, Zygote
from kb_shared.mongo import schema_version
from tests.chaos.document_reader import DocumentReader
from tests.chaos.oracle import Oracle
from tests.chaos.quiescence import SLOW_S, until_quiescent
from tests.chaos.revisions import Revisions
from tests.chaos.workload import Upstream
from tests.e2e.system import SystemUnderTest, system
from tests.rolling_update.balancing import IngressTransport, cluster_service
from tests.rolling_update.call_record import quantile
from tests.rolling_update.code_versions import CodeVersion, current_version
from tests.rolling_update.document_changes import TAGS, DocumentChanges
from tests.rolling_update.pod_times import POD_TIMES, UPDATE_ORDER, PodTimes, deployment_of
from tests.rolling_update.rollout import EndedReplica, Rollout, RunnableVersion, create_rollouts
from tests.rolling_update.traffic import UpdateTraffic
from tests.scripted_model import ScriptedModel
from tests.waiting import until

WATCHED: Final = "watched"
KEPT_CONNECTIONS: Final = 2
SETTINGS: Final = {
    "KB_RECONCILE_INTERVAL_S": "5",
    "KB_RECONCILE_FULL_INTERVAL_S": "30",
    "KB_RECONCILE_GRACE_S": "20",
    "KB_CHAT_MODELS": "demo-extractive,scripted-*",
}
"""Frequent passes of the reconciler, beside everything else."""


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """Conditions of a run."""

    before: CodeVersion
    run_s: float
    """Seconds that a chat model takes for its answer."""
    steady_s: float
    """Seconds under load before, between and after the two updates."""
    times: Mapping[str, PodTimes] = field(default_factory=lambda: POD_TIMES)
    kills: bool = False


@dataclass(slots=True)
class UpdateResult:
    problems: list[str]
    phases: Mapping[str, float]
    """Seconds of each phase."""
    calls: Mapping[str, Mapping[str, Any]]
    searchable: Mapping[str, Mapping[str, Any]]
    """By phase, the time from the event of a text to the first search that finds it."""
    ended: Sequence[EndedReplica]


@dataclass(slots=True)
class UpdateRun:
    options: UpdateOptions
    system: SystemUnderTest
    traffic: UpdateTraffic
    rollouts: Mapping[str, Rollout]
    old: RunnableVersion
    new: RunnableVersion
    phases: dict[str, float] = field(default_factory=dict)

    async def run(self) -> UpdateResult:
        """Update, go back, wait until nothing moves, and compare everything with the oracle."""
        async with self.traffic.running():
            await self._steady("before")
            await self._replace(UPDATE_ORDER, self.new, "update")
            await until(self._is_migrated, what="the data has the newest schema version", within_s=SLOW_S)
            await self._steady("between")
            await self._replace(UPDATE_ORDER[::-1], self.old, "way back")
            await self._steady("after")
        with self._phase("end"):
            await until_quiescent(self.system)
            found = await self.traffic.oracle.check(self.system)
            for rollout in self.rollouts.values():
                await rollout.stop_all()
        return self._result([f"{each.document_id} {each.what}" for each in found])

    async def _replace(self, order: Sequence[str], version: RunnableVersion, what: str) -> None:
        for package in order:
            with self._phase(f"{what} of {deployment_of(package)}"):
                await self.rollouts[package].replace_all(version)

    async def _steady(self, phase: str) -> None:
        with self._phase(phase):
            ends = monotonic() + self.options.steady_s
            await until(lambda: monotonic() > ends, every_s=0.2)

    async def _is_migrated(self) -> bool:
        stored = await schema_version.get(self.system.database)
        return stored.schema_version == schema_version.SCHEMA_VERSION

    @contextmanager
    def _phase(self, phase: str) -> Iterator[None]:
        began, self.traffic.record.phase = monotonic(), phase
        print(phase, flush=True)  # noqa: T201  # its progress
        yield
        self.phases[phase] = round(monotonic() - began, 1)

    def _result(self, wrong_data: Sequence[str]) -> UpdateResult:
        record, ended = self.traffic.record, [each for rollout in self.rollouts.values() for each in rollout.ended]
        more = record.number_of_failures - len(record.failures)
        problems = [
            *record.failures,
            *([f"{more} more calls failed"] if more else []),
            *(problem for each in ended if (problem := each.problem()) is not None),
            *wrong_data,
        ]
        searchable = {
            phase: {"texts": len(times), "median_s": quantile(times, 0.5), "worst_s": quantile(times, 1)}
            for phase, times in self.traffic.searchable_s.items()
        }
        return UpdateResult(problems, self.phases, record.summary(), searchable, ended)


async def run_update(folder: Path, options: UpdateOptions, *, seed: int) -> UpdateResult:
    """Start a system of the version before, update it, go back, and return what was seen."""
    async with AsyncExitStack() as opened:
        old = await opened.enter_async_context(_runnable(options.before, folder))
        new = await opened.enter_async_context(_runnable(current_version(), folder))
        stack = await opened.enter_async_context(
            Stack(folder / "stack", services=(), env=SETTINGS, zygote=new.zygote, topic_prefix=f"{uuid4().hex[:8]}.")
        )
        rollouts = create_rollouts(stack, UPDATE_ORDER, times=options.times, kills=options.kills)
        for package in UPDATE_ORDER[::-1]:
            await rollouts[package].scale_up(old)
        endpoints = {deployment_of(package): rollout.endpoints for package, rollout in rollouts.items()}
        direct = await opened.enter_async_context(system(stack))
        ingress = await opened.enter_async_context(_client_of(direct, transport=IngressTransport(endpoints)))
        service = await opened.enter_async_context(cluster_service(endpoints["kb-search"]))
        kept = await opened.enter_async_context(_client_of(direct, url=service, connections=KEPT_CONNECTIONS))
        under_test = replace(direct, http=ingress)
        async with _scripted_run(stack, options.run_s) as chat_model:
            traffic = await _prepare_traffic(under_test, kept, chat_model, seed=seed)
            return await UpdateRun(options, under_test, traffic, rollouts, old, new).run()


@asynccontextmanager
async def _runnable(version: CodeVersion, folder: Path) -> AsyncIterator[RunnableVersion]:
    zygote = Zygote(
        log=folder / f"zygote-{version.name}.log",
        preloaded=(
            *PRELOADED,
            *(f"{each}.bootstrap" for each in UPDATE_ORDER if version.has(each)),
            "tests.rolling_update.loaded_packages",
        ),
        env={"PYTHONPATH": version.python_path},
    )
    await zygote.start()
    try:
        yield RunnableVersion(version, zygote)
    finally:
        await zygote.stop()


def _client_of(
    system: SystemUnderTest,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    url: str = "http://ingress",
    connections: int | None = None,
) -> httpx.AsyncClient:
    """Return a client like the one that goes through the gateway, with another way to the services."""
    return httpx.AsyncClient(
        base_url=f"{url}/v0/orgs/{system.organization_id}",
        headers={"Authorization": system.http.headers["Authorization"]},
        timeout=120,
        trust_env=False,
        verify=NO_TLS,
        transport=transport,
        limits=httpx.Limits(max_connections=connections, keepalive_expiry=None),
    )


@asynccontextmanager
async def _scripted_run(stack: Stack, seconds: float) -> AsyncIterator[str]:
    """Have a chat model answer after so many seconds; give its name."""
    assert stack.model_server is not None
    async with httpx.AsyncClient(base_url=stack.model_server.url, trust_env=False, verify=NO_TLS) as http:
        model = ScriptedModel(http, "scripted-update")
        await model.says({"text": "Nothing.", "delay_s": seconds})
        yield model.name


async def _prepare_traffic(
    under_test: SystemUnderTest, kept: httpx.AsyncClient, chat_model: str, *, seed: int
) -> UpdateTraffic:
    """Create a knowledge base, and have the document that readers watch searchable before anything happens."""
    await under_test.create_tags(*TAGS)
    kb_id = await under_test.create_knowledge_base(TAGS[0])
    oracle, upstream = Oracle(), Upstream(under_test.organization_id)
    oracle.record_knowledge_base(kb_id, TAGS[0])
    await under_test.until_active(kb_id, within_s=SLOW_S)
    reader = DocumentReader(under_test, kb_id, WATCHED, Revisions(WATCHED, seed=seed))
    event = upstream.ocr(WATCHED, reader.revisions.newest, tags=TAGS)
    oracle.record_published(event)
    await under_test.events.publish(event)

    async def is_read() -> bool:
        return await reader.try_to_read() == set(reader.revisions.newest)

    await until(is_read, what="the watched document is found", within_s=SLOW_S, every_s=0.2)
    reader.violations.clear()
    dice = random.Random(seed)
    changes = DocumentChanges(upstream, dice)
    return UpdateTraffic(under_test, kept, kb_id, chat_model, oracle, changes, reader, dice)
