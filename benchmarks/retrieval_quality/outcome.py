"""Outcome of each query, as a file of JSON lines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean

from benchmarks.retrieval_quality.dataset import Query
from benchmarks.retrieval_quality.measures import Measures, measure

NAMES = tuple(field.name for field in fields(Measures))


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    query_id: str
    group: str
    ranking: tuple[str, ...]
    measures: Measures


def outcome_of(query: Query, ranking: Sequence[str]) -> QueryOutcome:
    return QueryOutcome(query.query_id, query.group, tuple(ranking), measure(ranking, query.relevant))


def means(outcomes: Sequence[QueryOutcome]) -> dict[str, float]:
    return {name: round(fmean(getattr(outcome.measures, name) for outcome in outcomes), 4) for name in NAMES}


def means_by_group(outcomes: Sequence[QueryOutcome]) -> dict[str, dict[str, float]]:
    """Empty where the queries are of one group."""
    groups = sorted({outcome.group for outcome in outcomes})
    if len(groups) < 2:
        return {}
    return {group: means([outcome for outcome in outcomes if outcome.group == group]) for group in groups}


def write(path: Path, outcomes: Sequence[QueryOutcome]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(outcome)) + "\n" for outcome in outcomes), encoding="utf-8")


def read(path: Path) -> dict[str, QueryOutcome]:
    """By query."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        row["query_id"]: QueryOutcome(row["query_id"], row["group"], tuple(row["ranking"]), Measures(**row["measures"]))
        for row in rows
    }
