"""`python -m tests.mutants`: plant one fault after the other and see that the tests named for it fail.

Each fault is planted in a copy of its package, in a folder of its own that goes when the run ends.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from time import monotonic
from typing import Final

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import ROOT, Mutant, NotPlantable
from tests.mutants.verdict import MutantOutcome, PytestResults, Verdict, judge, read_report

LONGEST_TEST_S: Final = 120


class FailsWithoutMutant(Exception):
    """A test does not pass on the code as it is, so that its failure would say nothing of a mutant."""


def main() -> None:
    options = _options()
    chosen = [mutant for mutant in MUTANTS if any(fnmatch(mutant.name, pattern) for pattern in options.only)]
    if not chosen:
        sys.exit(f"no mutant is called {' or '.join(options.only)}")
    try:
        verdicts = asyncio.run(_run(chosen, workers=options.workers))
    except FailsWithoutMutant as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1) + "\n")
    _print_verdicts(verdicts)
    sys.exit(0 if all(verdict.is_good for verdict in verdicts) else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="of mutants; may hold * and ?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="for the verdicts")
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="mutants at once, each with its own servers"
    )
    return parser.parse_args()


async def _run(mutants: Sequence[Mutant], *, workers: int) -> list[Verdict]:
    began = monotonic()
    _say(f"{len(mutants)} mutants; first their tests without a fault")
    await _require_all_pass(mutants)
    _say(f"all pass after {monotonic() - began:.0f} s")
    return await Runs(iter(mutants), len(mutants)).at_once(workers)


async def _require_all_pass(mutants: Sequence[Mutant]) -> None:
    """Run the tests of all mutants on the code as it is. Raises FailsWithoutMutant."""
    tests = sorted({test for mutant in mutants for test in mutant.caught_by})
    with tempfile.TemporaryDirectory(prefix="kb-mutant-", ignore_cleanup_errors=True) as folder:
        ran, output = await _pytest(tests, Path(folder), environment=None)
    if missing := [test for test in tests if test not in ran.passed]:
        raise FailsWithoutMutant(f"{output}\nThese tests do not pass without a fault either: {', '.join(missing)}")


@dataclass(slots=True)
class Runs:
    """Mutants that are tried one after the other, each by the next free process."""

    missing: Iterator[Mutant]
    total: int
    done: int = 0

    async def at_once(self, workers: int) -> list[Verdict]:
        verdicts: list[Verdict] = []
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._try_missing(verdicts))
        return verdicts

    async def _try_missing(self, verdicts: list[Verdict]) -> None:
        for mutant in self.missing:
            verdict = await run_mutant(mutant)
            verdicts.append(verdict)
            self.done += 1
            _say(f"{self.done:3}/{self.total}  {_line(verdict)}")


async def run_mutant(mutant: Mutant) -> Verdict:
    """Plant the fault in a copy and run the tests that are named for it."""
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="kb-mutant-", ignore_cleanup_errors=True) as folder:
        try:
            environment = mutant.plant(Path(folder))
        except NotPlantable as error:
            return Verdict(mutant.name, MutantOutcome.UNKNOWN, 0.0, str(error))
        ran, output = await _pytest(mutant.caught_by, Path(folder), environment=environment)
    outcome, detail = judge(mutant.caught_by, ran)
    if outcome is MutantOutcome.UNKNOWN:
        detail += f"\n{output}"
    return Verdict(mutant.name, outcome, round(monotonic() - began, 1), detail)


async def _pytest(
    tests: Sequence[str], folder: Path, *, environment: Mapping[str, str] | None
) -> tuple[PytestResults, str]:
    """Run some tests; returns what became of them, and the end of what pytest said."""
    report, log = folder / "report.xml", folder / "pytest.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quiet", "--tb=line"),
            *(f"--timeout={LONGEST_TEST_S}", f"--basetemp={folder / 'tests'}", f"--junit-xml={report}"),
            # Of a single test, one failed case is enough.
            *(("--exitfirst",) if len(tests) == 1 else ()),
            *tests,
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=file,
        )
        async with _ended(process):
            await process.wait()
    ran = read_report(report) if report.exists() else PytestResults(frozenset(), frozenset())
    return ran, log.read_text(errors="replace")[-2000:]


@asynccontextmanager
async def _ended(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    """Leave no pytest behind when the run is interrupted; its servers end with it."""
    try:
        yield
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    counts = {outcome: sum(verdict.outcome is outcome for verdict in verdicts) for outcome in MutantOutcome}
    _say("")
    for verdict in sorted(verdicts, key=lambda verdict: verdict.mutant):
        _say(_line(verdict))
    _say(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))


def _line(verdict: Verdict) -> str:
    return f"{verdict.mutant:44} {verdict.outcome.upper():8} {verdict.seconds:5.0f} s  {verdict.detail}".rstrip()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # its answer


if __name__ == "__main__":
    main()
