"""The suites that run on a single mongod pass on three, too."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes

ROOT = Path(__file__).parents[2]
FITTING = "not long and not kafka_cluster and not replica_set"
SUITES = {
    "e2e": ["tests/e2e"],
    "indexing": [f"tests/integration/{name}" for name in ("budget", "embedding", "indexer", "reconciler")],
    "administration": ["tests/integration/kb_api"],
    "search": [f"tests/integration/{name}" for name in ("mcp", "runs", "search")],
    "conformance": ["tests/conformance"],
}
LINES = 40


async def outcome(*command: str, **environment: str) -> tuple[int | None, list[str]]:
    """Run a module of this project; return its exit status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
    return process.returncode, output.decode(errors="replace").strip().splitlines()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("suite", SUITES)
async def test_a_suite_passes_on_three_mongods(
    suite: str, replica_set: ReplicaSet, nodes: SearchNodes, tmp_path: Path, summaries: list[str]
) -> None:
    status, lines = await outcome(
        # One process: what a test makes fail on the primary must not meet another test.
        *("pytest", *SUITES[suite], "-m", FITTING, "--quiet", "--basetemp", str(tmp_path / "pytest")),
        KB_TEST_MONGO_URI=nodes.uri,
    )
    summaries.append(f"{suite}: {lines[-1] if lines else 'it printed nothing'}")
    assert status == 0, "\n".join(lines[-LINES:])


@pytest.mark.timeout(600)
async def test_a_run_of_chaos_finds_nothing(summaries: list[str]) -> None:
    status, lines = await outcome("tests.chaos", "--seed", "1", "--seconds", "20", "--members", "3")
    summaries.append("chaos: " + "\n    ".join(lines[-4:]))
    assert status == 0, "\n".join(lines[-LINES:])
