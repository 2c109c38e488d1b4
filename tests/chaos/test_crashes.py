import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kb_shared.failpoints import OF_INDEXER
from tests.chaos.crashes import CrashOutcome, Kill, Servers, distribute_failpoints, draw_failpoints, run_lane

pytestmark = pytest.mark.timeout(600)

LANES = 3
SEED = 20


@dataclass(frozen=True, slots=True)
class Crashes:
    by_failpoint: Mapping[str, CrashOutcome]
    other_problems: Sequence[str]


@pytest.fixture(scope="module")
async def crashes(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Crashes:
    """A crash at each failpoint, in several lanes at a time; the tests look at what became of each."""
    outcomes, problems = await _run(
        servers,
        tmp_path_factory.mktemp("crashes"),
        distribute_failpoints(LANES, in_parts=True),
        expire_leases_early=True,
    )
    return Crashes({outcome.kill.failpoint: outcome for outcome in outcomes}, problems)


async def _run(
    servers: Servers, folder: Path, chains: Sequence[Sequence[Kill]], *, expire_leases_early: bool
) -> tuple[list[CrashOutcome], list[str]]:
    async with asyncio.TaskGroup() as group:
        lanes = [
            group.create_task(run_lane(servers, folder / str(n), chain, expire_leases_early=expire_leases_early))
            for n, chain in enumerate(chains)
        ]
    results = [lane.result() for lane in lanes]
    return [outcome for outcomes, _ in results for outcome in outcomes], [each for _, more in results for each in more]


@pytest.mark.parametrize("failpoint", OF_INDEXER)
def test_documents_are_indexed_correctly_after_a_kill_at(failpoint: str, crashes: Crashes) -> None:
    outcome = crashes.by_failpoint[failpoint]
    assert outcome.exit_status == -signal.SIGKILL, "it never got there"
    assert outcome.problems == ()


def test_kills_leave_no_stray_chunk_no_double_charge_and_no_lost_message(crashes: Crashes) -> None:
    assert crashes.other_problems == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [SEED, SEED + 1])
async def test_fifty_kills_one_after_the_other_leave_everything_right(
    seed: int, servers: Servers, tmp_path: Path
) -> None:
    chains = [*distribute_failpoints(LANES), *draw_failpoints(seed, rounds=50 - len(OF_INDEXER), lanes=2)]
    outcomes, problems = await _run(servers, tmp_path, chains, expire_leases_early=False)
    assert [outcome for outcome in outcomes if outcome.exit_status != -signal.SIGKILL or outcome.problems] == []
    assert problems == []
