"""Faults of three mongods while a whole system works: nothing is lost, and no restart is needed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from uuid import uuid4

import pytest

from kb_local.broker import Broker
from kb_local.python_server import ModelServerProcess
from kb_local.replica_set import ReplicaSet
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.chaos.oracle import Oracle
from tests.chaos.workload import Upstream
from tests.conftest import KafkaCluster
from tests.e2e.system import QUICK, SystemUnderTest, system
from tests.replica_set.workload import Workload
from tests.waiting import until

FEW = 20
"""Successful writes and searches before a fault, and after it."""
WITHIN_S = 120.0
DOWN_S = 20.0
FROZEN_S = 30.0
AFTER_KILL_S = 15.0
"""Searches are answered again so soon; the secondaries wait 10 s of it, MongoDB's default, before they elect."""
AFTER_ELECTION_S = 5.0


@dataclass(frozen=True, slots=True)
class ReplicaSetFault:
    strike: Callable[[ReplicaSet], Awaitable[None]]
    searches_within_s: float | None = None
    """The longest time without a search that succeeds, where it does not depend on when we heal the members."""
    answers_slowly: bool = False
    """True if a request that a frozen member has received waits for the end of the freeze."""
    refuses: bool = True
    """True if callers may get a 503."""


async def kill_the_primary(members: ReplicaSet) -> None:
    await (await members.primary()).kill()
    await asyncio.sleep(DOWN_S)


async def freeze_the_primary(members: ReplicaSet) -> None:
    await (await members.primary()).pause()
    await asyncio.sleep(FROZEN_S)


async def step_down_three_times(members: ReplicaSet) -> None:
    for _ in range(3):
        await members.step_down()
        await members.heal()
        await asyncio.sleep(3)


async def freeze_a_secondary(members: ReplicaSet) -> None:
    await (await members.secondaries())[0].pause()
    await asyncio.sleep(DOWN_S)


async def freeze_both_secondaries(members: ReplicaSet) -> None:
    for member in await members.secondaries():
        await member.pause()
    await asyncio.sleep(DOWN_S)


async def restart_one_after_the_other(members: ReplicaSet) -> None:
    for member in members.members:
        await member.stop()
        await members.heal()


FAULTS = [
    ReplicaSetFault(kill_the_primary, searches_within_s=AFTER_KILL_S),
    ReplicaSetFault(freeze_the_primary, answers_slowly=True),
    ReplicaSetFault(step_down_three_times, searches_within_s=AFTER_ELECTION_S),
    ReplicaSetFault(freeze_a_secondary, refuses=False),
    ReplicaSetFault(freeze_both_secondaries),
    ReplicaSetFault(restart_one_after_the_other),
]


@pytest.fixture(scope="module")
async def running(
    started_set: ReplicaSet,
    broker: KafkaCluster | Broker,
    model_server: ModelServerProcess,
    zygote: Zygote,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[SystemUnderTest, Oracle]]:
    name = f"faults_{uuid4().hex[:12]}"
    folder: Path = tmp_path_factory.mktemp("faults")
    async with (
        Stack(
            folder,
            services=("kb_api", "kb_indexer", "kb_indexer:2", "kb_search", "kb_reconciler"),
            env={**QUICK, "KB_JOB_LEASE_S": "30", "KB_KAFKA_SESSION_TIMEOUT_MS": "15000"},
            mongo_uri=started_set.uri,
            kafka=broker if isinstance(broker, Broker) else broker.bootstrap,
            models_api_base=model_server.api_base,
            zygote=zygote,
            database=name,
            topic_prefix=f"{name}.",
        ) as stack,
        system(stack, http_timeout_s=60) as opened,
    ):
        yield opened, Oracle()
        await opened.database.client.drop_database(name)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.strike.__name__)
async def test_nothing_is_lost_and_all_goes_on_by_itself(
    replica_set: ReplicaSet, running: tuple[SystemUnderTest, Oracle], fault: ReplicaSetFault, summaries: list[str]
) -> None:
    opened, oracle = running
    tags = [f"tag-{uuid4().hex[:8]}" for _ in range(2)]
    await opened.create_tags(*tags)
    kb_id = await opened.create_knowledge_base(*tags)
    oracle.record_knowledge_base(kb_id, *tags)
    await opened.until_active(kb_id)
    services = {name: service.pid for name, service in opened.stack.services.items()}
    workload = Workload(opened, replica_set, kb_id, Upstream(opened.organization_id), oracle)
    began = monotonic()
    async with workload.running():
        await wait_for_more_successes(workload)
        await fault.strike(replica_set)
        await replica_set.heal()
        await wait_for_more_successes(workload)
    wrong = await workload.verdict()
    report(summaries, f"{fault.strike.__name__} ({monotonic() - began:.0f} s)", workload, wrong)
    assert wrong == []
    assert {name: service.pid for name, service in opened.stack.services.items() if service.running} == services
    seen = workload.availability.summary()
    if not fault.answers_slowly:
        assert seen.gaps_s["search"] < seen.gaps_s["primary"] + AFTER_ELECTION_S
    if fault.searches_within_s is not None:
        assert seen.gaps_s["search"] < fault.searches_within_s
    if not fault.refuses:
        assert set(seen.answers) == {"search 200", "write 202"}


async def wait_for_more_successes(workload: Workload) -> None:
    writes, searches = workload.writes + FEW, workload.searches + FEW

    def done() -> bool:
        return workload.writes >= writes and workload.searches >= searches

    await until(done, within_s=WITHIN_S, what="more writes and searches that succeed")


def report(summaries: list[str], title: str, workload: Workload, wrong: list[str]) -> None:
    documents = len(workload.oracle.events)
    verdict = f"oracle: {len(wrong)} wrong of {documents} documents{''.join(f'; {each}' for each in wrong[:5])}"
    summaries.append("\n    ".join([title, *workload.lines(), verdict]))
