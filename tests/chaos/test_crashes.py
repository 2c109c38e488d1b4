import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kb_shared.failpoints import NAMES
from tests.chaos.crashes import Kill, Outcome, Servers, at_random, run_lane, shared_out

pytestmark = pytest.mark.timeout(600)

LANES = 3
SEED = 20


@dataclass(frozen=True, slots=True)
class Crashes:
    by_failpoint: Mapping[str, Outcome]
    other_problems: Sequence[str]


@pytest.fixture(scope="module")
async def crashes(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Crashes:
    """A crash at each failpoint, in several lanes at a time; the tests look at what became of each."""
    outcomes, problems = await _run(
        servers, tmp_path_factory.mktemp("crashes"), shared_out(LANES, in_parts=True), let_time_pass=True
    )
    return Crashes({outcome.kill.failpoint: outcome for outcome in outcomes}, problems)


async def _run(
    servers: Servers, folder: Path, chains: Sequence[Sequence[Kill]], *, let_time_pass: bool
) -> tuple[list[Outcome], list[str]]:
    async with asyncio.TaskGroup() as group:
        lanes = [
            group.create_task(run_lane(servers, folder / str(n), chain, let_time_pass=let_time_pass))
            for n, chain in enumerate(chains)
        ]
    results = [lane.result() for lane in lanes]
    return [outcome for outcomes, _ in results for outcome in outcomes], [each for _, more in results for each in more]


@pytest.mark.parametrize("failpoint", NAMES)
def test_documents_come_right_after_a_kill_at(failpoint: str, crashes: Crashes) -> None:
    outcome = crashes.by_failpoint[failpoint]
    assert outcome.exit_status == -signal.SIGKILL, "it never got there"
    assert outcome.problems == ()


def test_kills_leave_no_stray_no_double_charge_and_every_message_with_somebody(crashes: Crashes) -> None:
    assert crashes.other_problems == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [SEED, SEED + 1])
async def test_fifty_kills_one_after_the_other_leave_everything_right(
    seed: int, servers: Servers, tmp_path: Path
) -> None:
    chains = [*shared_out(LANES), *at_random(seed, rounds=50 - len(NAMES), lanes=2)]
    outcomes, problems = await _run(servers, tmp_path, chains, let_time_pass=False)
    assert [outcome for outcome in outcomes if outcome.exit_status != -signal.SIGKILL or outcome.problems] == []
    assert problems == []
