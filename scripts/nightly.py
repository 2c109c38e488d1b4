"""Runs make targets one after the other, each to its end, and prints a table: `python scripts/nightly.py TARGET ...`.

The output of each target goes to `.nightly/<target>.log`. The status is 1 if a target failed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / ".nightly"


@dataclass(frozen=True, slots=True)
class TargetResult:
    target: str
    status: int
    seconds: float
    last_line: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="a target of the Makefile")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to a file")
    options = parser.parse_args()
    LOGS.mkdir(exist_ok=True)
    results = []
    for target in options.targets:
        print(f"make {target} ... (log: {LOGS.name}/{target}.log)", flush=True)
        results.append(run(target))
        print_row(results[-1])
    print()
    for result in results:
        print_row(result)
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    return 1 if any(result.status for result in results) else 0


def run(target: str) -> TargetResult:
    """Run a target and return its result."""
    log = LOGS / f"{target}.log"
    # Flags of the `make` that runs this script, such as --jobserver, are not for another one.
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    began = time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(
            ["make", target], cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    return TargetResult(target, done.returncode, round(time.monotonic() - began, 1), last_line_of(log))


def last_line_of(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def print_row(result: TargetResult) -> None:
    outcome = "ok" if result.status == 0 else f"failed ({result.status})"
    taken = timedelta(seconds=round(result.seconds))
    print(f"  {outcome:12} {taken!s:>8}  {result.target:14} {result.last_line[:80]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
