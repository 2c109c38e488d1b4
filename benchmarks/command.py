"""The command line that all benchmarks share: options, a folder that goes with the run, figures at the end."""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from kb_shared.observability import logs

Measure = Callable[[Path, argparse.Namespace], Awaitable[Mapping[str, Any]]]


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of `python -m benchmarks.<name>`, to which the benchmark adds its own options."""
    own = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    own.add_argument("--json", action="store_true", help="print the figures as one JSON object, and nothing else")
    return own


def run(parser: argparse.ArgumentParser, measure: Measure) -> None:
    """Parse the command line, measure in a fresh folder, and print the figures with the options they are for."""
    options = parser.parse_args()
    # To stderr: stdout is for the figures.
    logs.configure("benchmark", "WARNING")
    with tempfile.TemporaryDirectory(prefix="kb-benchmark-") as folder:
        figures = asyncio.run(_measured(measure, Path(folder), options))
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name}: {value}")


async def _measured(measure: Measure, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    asked = {name: value for name, value in vars(options).items() if name != "json"}
    return {"options": asked, **await measure(folder, options)}
