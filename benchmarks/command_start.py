"""`python -m benchmarks.command_start`: the time until `kb` prints something, with that of Python.

Every figure is the least of several runs: other processes only make a run longer.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks import command

GOAL_MS: Final = 300
_COMMANDS: Final = (("--help",), ("kb", "--help"), ("docs", "push", "--help"))


def main() -> None:
    parser = command.parser("command_start", __doc__)
    parser.add_argument("--runs", type=int, default=10, help="of each command")
    command.run(parser, _measure)


async def _measure(_folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    kb = str(Path(sys.executable).with_name("kb"))
    return {
        "python_ms": _least_ms([sys.executable, "-c", "pass"], options.runs),
        "start_ms": {" ".join(("kb", *each)): _least_ms([kb, *each], options.runs) for each in _COMMANDS},
        "goal_ms": {"kb --help": GOAL_MS},
    }


def _least_ms(program: list[str], runs: int) -> int:
    return round(min(_ms(program) for _ in range(runs)))


def _ms(program: list[str]) -> float:
    begin = perf_counter()
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own program
    return (perf_counter() - begin) * 1000


if __name__ == "__main__":
    main()
