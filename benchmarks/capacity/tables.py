"""Tables of plans and breaking points in Markdown."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from benchmarks.capacity.plan import BreakingPoint, CapacityPlan

QuantizedPlans: TypeAlias = Mapping[str, CapacityPlan]
"""Plans of the same number of chunks by quantization."""


def as_table(columns: Mapping[str, QuantizedPlans]) -> str:
    """Return a table in Markdown with a column for each number of chunks."""
    rows: list[tuple[str, Callable[[CapacityPlan], str]]] = [
        ("documents", lambda plan: short_number(plan.documents)),
        ("knowledge bases", lambda plan: short_number(plan.knowledge_bases)),
        ("disk of MongoDB, one copy", lambda plan: _bytes(plan.mongo_disk_gb_of_member_set)),
        ("disk of MongoDB, all members", lambda plan: _bytes(plan.mongo_disk_gb_of_all)),
        ("memory of MongoDB for indexes and hot chunks", lambda plan: _bytes(plan.mongo_memory_gb)),
        ("memory of search nodes, one copy", lambda plan: _bytes(plan.search_memory_gb)),
        ("shards", lambda plan: short_number(plan.shards)),
        ("search nodes, two per shard", lambda plan: short_number(plan.search_nodes)),
        ("cores of mongod during the first load", lambda plan: f"{plan.cores_of_mongod_for_load:.1f}"),
        ("indexers for the first load", lambda plan: short_number(plan.indexers_for_load)),
        ("cores of the search service", lambda plan: f"{plan.cores_of_search:.1f}"),
        ("document events of the first load", lambda plan: _bytes(plan.event_gb_of_load)),
        ("full pass of the reconciler, hours", lambda plan: f"{plan.full_pass_hours:.2g}"),
        ("tokens of the first load", lambda plan: short_number(plan.provider_tokens)),
        ("days of the provider's quota", lambda plan: f"{plan.provider_days:.1f}"),
        ("embeddings of the first load", lambda plan: f"${short_number(plan.provider_dollars)}"),
        ("embeddings of changes, a month", lambda plan: f"${short_number(plan.provider_dollars_per_month)}"),
    ]
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [
        f"| {name} | {' | '.join(_merge({each: show(plan) for each, plan in of.items()}) for of in columns.values())} |"
        for name, show in rows
    ]
    lines.append(f"| limits that are broken | {' | '.join(_describe_broken(of) for of in columns.values())} |")
    return "\n".join(lines)


def as_list_of_limits(points: Sequence[BreakingPoint]) -> str:
    """Return the breaking points as a table in Markdown."""
    lines = [f"| {short_number(point.chunks)} | {point.limit} |" for point in points]
    return "\n".join(["| chunks | limit |", "|---|---|", *lines])


def _merge(cells: Mapping[str, str]) -> str:
    """Return what is the same with each quantization once, else one after the other."""
    if len(set(cells.values())) == 1:
        return next(iter(cells.values()))
    return ", ".join(f"{cell} ({name})" for name, cell in cells.items())


def _describe_broken(plans: QuantizedPlans) -> str:
    needed: dict[tuple[str, float], dict[str, str]] = {}
    for name, plan in plans.items():
        for broken in plan.broken:
            needed.setdefault((broken.limit, broken.allowed), {})[name] = short_number(broken.needed)
    found = [f"{limit}: {_merge(cells)} of {short_number(allowed)}" for (limit, allowed), cells in needed.items()]
    return "<br>".join(found) or "none"


def short_number(number: float) -> str:
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,.0f}"


def _bytes(gigabytes: float) -> str:
    return f"{gigabytes / 1_000:,.3g} TB" if gigabytes >= 1_000 else f"{gigabytes:,.3g} GB"
