"""Options of the load, which the soak has, too."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.load.population import EVENT_KINDS
from benchmarks.load.queries import MODES
from benchmarks.load.workload import LoadShape


def add_load_options(parser: argparse.ArgumentParser, *, searches_per_s: float, events_per_s: float) -> None:
    rates = parser.add_argument_group("rates")
    rates.add_argument("--searches-per-s", type=float, default=searches_per_s, help=f"(default: {searches_per_s:g})")
    rates.add_argument("--events-per-s", type=float, default=events_per_s, help=f"(default: {events_per_s:g})")
    rates.add_argument(
        "--samples-per-s",
        type=float,
        default=2,
        help="limit of texts whose time to searchable is measured (default: 2)",
    )
    rates.add_argument("--in-flight", type=int, default=1_000, help="limit of calls under way (default: 1000)")
    mix = parser.add_argument_group("what is searched and published")
    mix.add_argument(
        "--event-mix",
        nargs=len(EVENT_KINDS),
        type=float,
        default=[5, 2, 2, 1],
        metavar=_names(EVENT_KINDS),
        help="weights of new documents, new texts, new tags and deletions (default: 5 2 2 1)",
    )
    mix.add_argument("--duplicates", type=float, default=0.05, help="share of events published twice (default: 0.05)")
    mix.add_argument(
        "--modes",
        nargs=len(MODES),
        type=float,
        default=[6, 2, 2],
        metavar=_names(MODES),
        help="weights of the modes of searches (default: 6 2 2)",
    )
    mix.add_argument("--filtered", type=float, default=0.3, help="share of searches with a filter (default: 0.3)")
    mix.add_argument("--queries", type=int, default=1_000, help="different queries of each KB (default: 1000)")
    mix.add_argument(
        "--skew", type=float, default=1.0, help="exponent of Zipf's law for KBs, documents and queries (default: 1)"
    )
    mix.add_argument("--seed", type=int, default=1, help="of all random choices (default: 1)")
    data = parser.add_argument_group("data")
    data.add_argument("--corpus", type=Path, metavar="FILE", help="documents.jsonl of `benchmarks.corpus`")
    data.add_argument("--preload", type=int, default=500, help="documents that are indexed before (default: 500)")
    data.add_argument("--organizations", type=int, default=1, help="of the local stack (default: 1)")
    data.add_argument("--knowledge-bases", type=int, default=4, help="of all organizations together (default: 4)")
    data.add_argument("--model", default="hash-384", help="embedding model of the KBs (default: hash-384)")
    data.add_argument("--indexers", type=int, default=1, help="processes in the local stack (default: 1)")
    data.add_argument("--embed-delay-ms", type=float, default=50, help="of the local model server (default: 50)")
    data.add_argument("--patience-s", type=float, default=120, help="after which a text is not found (default: 120)")


def load_shape(options: argparse.Namespace) -> LoadShape:
    return LoadShape(
        searches_per_s=options.searches_per_s,
        events_per_s=options.events_per_s,
        event_mix=dict(zip(EVENT_KINDS, options.event_mix, strict=True)),
        duplicates=options.duplicates,
        modes=dict(zip(MODES, options.modes, strict=True)),
        filtered=options.filtered,
        skew=options.skew,
        queries_of_kb=options.queries,
        samples_per_s=options.samples_per_s,
        patience_s=options.patience_s,
        max_in_flight=options.in_flight,
        seed=options.seed,
    )


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.upper() for name in names)
