"""`python -m tests.chaos.mutants`: a missing safeguard must be noticed, whichever it is.

Each mutant of `tests.chaos.mutation` is run until something notices that it is one: seeds of chaos, a kill at a
failpoint, or a directed test, where what it leads to takes more than luck. What none notices has survived, and makes
this fail.
"""

import argparse
import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from kb_local.broker import Broker
from kb_local.ports import free_port
from tests.chaos.__main__ import shared_servers
from tests.chaos.crashes import Kill, Servers, run_lane
from tests.chaos.mutation import MUTANTS
from tests.chaos.run import run

TESTS_PASSED = 0
TESTS_FAILED = 1
_FAILED_TEST = re.compile(r"^FAILED \S*?(\w+\.py::\w+)", re.MULTILINE)


class InconclusiveRun(Exception):
    """The run has no result: the mutant was neither caught nor did it survive."""


class MutantDetector(Protocol):
    async def detect(self, mutant: str, folder: Path) -> str | None:
        """Return what noticed the mutant; None if nothing did."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """Runs seeds one by one until one finds something; without the reconciler, which would repair the faults."""

    seeds: Sequence[int]

    async def detect(self, mutant: str, folder: Path) -> str | None:
        async with shared_servers(folder, folder, mutant) as servers:
            for seed in self.seeds:
                verdict = await run(servers, folder / f"seed-{seed}", seed, seconds=20, replicas=2, reconciler=False)
                # A run that a busy machine does not finish says nothing about the mutant.
                if verdict.problems and not verdict.stuck:
                    return f"seed {seed}: {verdict.problems[0]}"
        return None


@dataclass(frozen=True, slots=True)
class KillAt:
    """One kill at a failpoint, under the workload of `tests.chaos.crashes`."""

    failpoint: str

    async def detect(self, mutant: str, folder: Path) -> str | None:
        broker = Broker(port=free_port(), log=folder / "broker.log")
        async with shared_servers(folder, folder, mutant) as shared:
            await broker.start()
            try:
                servers = Servers(shared.mongo_uri, broker, shared.models_api_base, shared.zygote)
                kills = [Kill(0, self.failpoint)]
                [outcome], others = await run_lane(servers, folder / "lane", kills, expire_leases_early=True)
            finally:
                await broker.stop()
        problems = [*outcome.problems, *others]
        return f"kill at {self.failpoint}: {problems[0]}" if problems else None


@dataclass(frozen=True, slots=True)
class DetectingTest:
    """A test of the interleavings or states in which the safeguard matters."""

    tests: str
    """As on the command line of pytest."""

    async def detect(self, mutant: str, folder: Path) -> str | None:
        log = folder / "pytest.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pytest", "-p", "tests.chaos.mutation", "-p", "no:cacheprovider"),
                *("-x", "-q", "--tb=line", "-rf", *self.tests.split()),
                env={**os.environ, "CHAOS_MUTANT": mutant},
                stdout=file,
                stderr=file,
            )
            status = await process.wait()
        return failed_test(status, log.read_text(errors="replace"))


def failed_test(status: int, output: str) -> str | None:
    """Return the test that failed according to pytest; None if all passed.

    Raises:
        InconclusiveRun: pytest had no result: no test was found, or the mutant could not be applied.
    """
    failed = _FAILED_TEST.search(output)
    if status == TESTS_FAILED and failed:
        return failed[1]
    if status == TESTS_PASSED:
        return None
    raise InconclusiveRun(f"pytest ended with {status}:\n{output[-2000:]}")


SOME_SEEDS = Seeds(range(1, 6))
DETECTORS: Mapping[str, MutantDetector] = {
    "commit-first": KillAt("fan_out.before_projection"),
    "fence-by-reading": DetectingTest("tests/integration/indexer/test_races.py -k after_fence"),
    "positional-ids": SOME_SEEDS,
    "no-token-on-jobs": DetectingTest("tests/integration/indexer/test_jobs.py -k after_the_decision"),
    "acknowledged-by-one": DetectingTest("tests/chaos/test_primary_kill.py"),
    "no-revision-check": SOME_SEEDS,
}


@dataclass(frozen=True, slots=True)
class MutantResult:
    mutant: str
    caught_by: str | None
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutants", description=__doc__)
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help=", ".join(MUTANTS))
    options = parser.parse_args()
    if unknown := set(options.mutants) - MUTANTS.keys():
        parser.error(f"unknown: {', '.join(unknown)}")
    results = []
    for mutant in options.mutants or MUTANTS:
        results.append(asyncio.run(_run_mutant(mutant)))
        _print_result(results[-1])
    sys.exit(1 if any(result.caught_by is None for result in results) else 0)


async def _run_mutant(mutant: str) -> MutantResult:
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="kb-chaos-") as folder:
        caught_by = await DETECTORS[mutant].detect(mutant, Path(folder))
    return MutantResult(mutant, caught_by, monotonic() - began)


def _print_result(result: MutantResult) -> None:
    print(f"{result.mutant:20}  {result.seconds:5.0f} s  {result.caught_by or 'SURVIVED'}", flush=True)  # noqa: T201  # its answer


if __name__ == "__main__":
    main()
