"""`python -m benchmarks.capacity`: what a number of chunks needs, calculated from measured unit costs.

The units are those of `benchmarks.unit_costs` (`--units FILE`), the limits those of providers' documentation, which
docs/explanation/capacity.md names. All other figures are assumptions that options can change.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.capacity.plan import (
    QUANTIZATIONS,
    CapacityDemand,
    CapacityLimits,
    CapacityPlan,
    UnitCosts,
    find_breaking_points,
    plan_capacity,
)
from benchmarks.capacity.tables import as_list_of_limits, as_table, short_number

MEASURED: Final = Path(__file__).parents[1] / "measured" / "unit_costs_1536.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--chunks", type=float, nargs="+", default=[1e7, 1e10], help="(default: 1e7 1e10)")
    parser.add_argument("--units", type=Path, default=MEASURED, help="JSON of `benchmarks.unit_costs`")
    parser.add_argument("--searches-per-s", type=float, default=50)
    parser.add_argument("--chunks-of-kb", type=float, default=100_000)
    parser.add_argument("--changed-per-day", type=float, default=0.01, help="share of the documents (default: 0.01)")
    parser.add_argument("--load-days", type=float, default=7, help="days for the first load (default: 7)")
    parser.add_argument("--quantizations", nargs="+", default=["none", "scalar", "binary"], choices=[*QUANTIZATIONS])
    parser.add_argument("--shard-disk-gb", type=float, default=2_000)
    parser.add_argument("--shard-memory-gb", type=float, default=128)
    parser.add_argument("--search-node-memory-gb", type=float, default=128)
    parser.add_argument("--full-pass-s-per-million-chunks", type=float, default=28, help="of the reconciler")
    parser.add_argument("--tokens-per-minute", type=float, default=1e7, help="of the provider (default: 1e7)")
    parser.add_argument("--dollars-per-million-tokens", type=float, default=0.02)
    options = parser.parse_args()
    units = UnitCosts.from_measurement(json.loads(options.units.read_text()))
    limits = CapacityLimits(
        provider_tokens_per_minute=options.tokens_per_minute,
        dollars_per_million_tokens=options.dollars_per_million_tokens,
    )
    columns: dict[str, dict[str, CapacityPlan]] = {}
    for demand in _demands(options):
        column = columns.setdefault(f"{short_number(demand.chunks)} chunks", {})
        column[demand.quantization] = plan_capacity(demand, units, limits)
    print(as_table(columns))
    print()
    print(as_list_of_limits(find_breaking_points(_demands(options)[0], units, limits)))


def _demands(options: argparse.Namespace) -> Sequence[CapacityDemand]:
    return [
        CapacityDemand(
            chunks=chunks,
            chunks_of_kb=options.chunks_of_kb,
            searches_per_s=options.searches_per_s,
            changed_per_day=options.changed_per_day,
            quantization=quantization,
            shard_disk_gb=options.shard_disk_gb,
            shard_memory_gb=options.shard_memory_gb,
            search_node_memory_gb=options.search_node_memory_gb,
            load_days=options.load_days,
            full_pass_s_per_million_chunks=options.full_pass_s_per_million_chunks,
        )
        for chunks in options.chunks
        for quantization in options.quantizations
    ]


if __name__ == "__main__":
    main()
