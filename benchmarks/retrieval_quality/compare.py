"""`python -m benchmarks.retrieval_quality.compare A B`: is B better than A, or was it luck?

A and B are files that `benchmarks.retrieval_quality --per-query` wrote for the same queries. A paired bootstrap draws
the queries again and again: the interval is where 95 % of the differences of the means lie.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.retrieval_quality import outcome

DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of B to A."""

    mean: float
    low: float
    high: float
    """Between `low` and `high` lie 95 % of the differences that other draws of queries would have given."""
    b_better: float
    """Share of draws in which B is better; half of those in which they are equal."""


def difference(a: Sequence[float], b: Sequence[float], *, draws: int = DRAWS, seed: int = 0) -> Difference:
    """Compare two systems by what each made of the same queries, in the same order."""
    each = np.subtract(b, a)
    chosen = np.random.default_rng(seed).integers(0, len(each), size=(draws, len(each)))
    drawn = each[chosen].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    better = float(np.mean(drawn > 0) + np.mean(drawn == 0) / 2)
    return Difference(round(float(each.mean()), 4), round(float(low), 4), round(float(high), 4), round(better, 4))


def main() -> None:
    options = _options()
    a, b = outcome.read(options.a), outcome.read(options.b)
    if a.keys() != b.keys():
        raise SystemExit(f"{options.a} and {options.b} are of different queries; compare runs over the same ones")
    figures = {
        name: difference(*([getattr(side[query_id].measures, name) for query_id in a] for side in (a, b)))
        for name in outcome.NAMES
    }
    if options.json:
        print(json.dumps({name: asdict(figure) for name, figure in figures.items()}, indent=2))
        return
    for name, figure in figures.items():
        print(
            f"{name}: {figure.mean:+.4f} ({figure.low:+.4f} to {figure.high:+.4f}), B better in {figure.b_better:.1%}"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval_quality.compare", description=__doc__)
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
