"""`python -m tests.chaos.mutants`: chaos must find out whenever a safeguard is missing.

Each mutant is run through seeds until one finds something. One that none finds is named, and makes this fail.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.__main__ import Conditions, judge, shared_servers
from tests.chaos.mutation import MUTANTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutants", description=__doc__)
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help=", ".join(MUTANTS))
    parser.add_argument("--seeds", type=int, default=5, help="until it is given up on a mutant")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--replicas", type=int, default=2)
    options = parser.parse_args()
    if unknown := set(options.mutants) - MUTANTS.keys():
        parser.error(f"unknown: {', '.join(unknown)}")
    # The reconciler would make good what mutants do.
    conditions = Conditions(options.seconds, options.replicas, reconciler=False)
    survived = [
        mutant
        for mutant in options.mutants or MUTANTS
        if not asyncio.run(_is_found(mutant, range(1, options.seeds + 1), conditions))
    ]
    sys.exit(1 if survived else 0)


async def _is_found(mutant: str, seeds: Iterable[int], conditions: Conditions) -> bool:
    with tempfile.TemporaryDirectory(prefix="kb-chaos-") as folder:
        async with shared_servers(Path(folder), Path(folder), mutant) as servers:
            for seed in seeds:
                verdict = await judge(servers, Path(folder) / f"seed-{seed}", seed, conditions)
                if verdict.problems:
                    print(f"{mutant}: found by seed {seed}: {verdict.problems[0]}", flush=True)  # noqa: T201  # its answer
                    return True
    print(f"{mutant}: SURVIVED", flush=True)  # noqa: T201  # its answer
    return False


if __name__ == "__main__":
    main()
