from pathlib import Path

import pytest

from kb_local.mongod import Mongod
from kb_local.python_server import ModelServerProcess
from kb_local.zygote import Zygote
from tests.chaos.chaos_system import ChaosServers
from tests.chaos.run import run
from tests.conftest import RunningMongo

SHORT = 8.0
SHORT_SEED = 1
REGRESSIONS: tuple[int, ...] = ()
"""Seeds that once found something, at twenty seconds; a comment beside each says what."""


@pytest.fixture
def chaos_servers(mongod: RunningMongo | Mongod, model_server: ModelServerProcess, zygote: Zygote) -> ChaosServers:
    return ChaosServers(mongod.uri, model_server.api_base, zygote)


@pytest.mark.long
async def test_all_invariants_hold_after_a_short_time_of_all_faults_together(
    chaos_servers: ChaosServers, tmp_path: Path
) -> None:
    verdict = await run(chaos_servers, tmp_path, SHORT_SEED, seconds=SHORT, replicas=2, reconciler=False)
    assert verdict.problems == []
    assert verdict.reads > 20


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [*REGRESSIONS, *range(100, 120)])
async def test_all_invariants_hold_after(seed: int, chaos_servers: ChaosServers, tmp_path: Path) -> None:
    verdict = await run(chaos_servers, tmp_path, seed, seconds=20, replicas=2, reconciler=bool(seed % 2))
    assert verdict.problems == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(900, 905))
async def test_all_invariants_hold_after_the_restore_of_a_backup_in_the_middle_of(
    seed: int, chaos_servers: ChaosServers, tmp_path: Path
) -> None:
    verdict = await run(chaos_servers, tmp_path, seed, seconds=20, replicas=2, reconciler=True, restore_midway=True)
    assert verdict.problems == []
