"""`python -m benchmarks.client_import`: the time of imports of `kb_client` in a new process, without that of Python.

Every figure is the least of several runs: other processes only make a run longer.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks import command

GOAL_MS: Final = 150
_PROGRAMS: Final = {
    "kb_client": "import kb_client",
    "client": "from kb_client import Client",
    "first_search": """
from kb_client import Client
Client("http://kb", organization="o", api_key="k").knowledge_bases.search
""",
    "publisher": "import kb_client.events",
    "subscriber": "import kb_client.subscriber",
}


def main() -> None:
    parser = command.parser("client_import", __doc__)
    parser.add_argument("--runs", type=int, default=10, help="of each import")
    command.run(parser, _measure)


async def _measure(_folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    python_ms = _least_ms("pass", options.runs)
    imports = {name: round(_least_ms(program, options.runs) - python_ms) for name, program in _PROGRAMS.items()}
    return {"python_ms": round(python_ms), "import_ms": imports, "goal_ms": {"kb_client": GOAL_MS}}


def _least_ms(program: str, runs: int) -> float:
    return min(_ms(program) for _ in range(runs))


def _ms(program: str) -> float:
    begin = perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603  # our own program
    return (perf_counter() - begin) * 1000


if __name__ == "__main__":
    main()
