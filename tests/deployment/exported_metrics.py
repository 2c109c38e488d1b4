"""The metrics as Prometheus sees them: names of series, their labels, and the values of labels that are closed sets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from prometheus_client.metrics import MetricWrapperBase

from kb_contracts import topics
from kb_contracts.commands import Reason
from kb_reconciler.drift.registry import NAMES
from kb_search.retrieval.stopwatch import SearchStage
from kb_shared.mongo.circuit import Cause
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.observability import metrics
from kb_shared.providers.provider_errors import StatusClass

OF_EVERY_TARGET: Final = frozenset({"job", "instance"})
_SUFFIXES: Final = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
_REPAIRS: Final = frozenset({"repaired", "stopped"})
_VALUES: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("kb_time_to_searchable_seconds", "path"): frozenset(Reason),
    ("kb_oldest_unindexed_age_seconds", "path"): frozenset(Reason),
    ("kb_search_seconds", "stage"): frozenset({*get_args(SearchStage), "total"}),
    ("kb_event_processing_seconds", "stage"): frozenset({"chunk", "embed", "swap"}),
    ("kb_provider_responses", "status_class"): frozenset(get_args(StatusClass)),
    ("kb_chat_calls", "status_class"): frozenset(get_args(StatusClass)),
    ("kb_circuits_open", "cause"): frozenset(Cause),
    ("kb_documents", "state"): frozenset({*IndexJobState, "indexed"}),
    ("kb_reconciler_drift", "kind"): frozenset(NAMES),
    ("kb_reconciler_repairs", "kind"): frozenset(NAMES),
    ("kb_reconciler_repairs", "outcome"): _REPAIRS,
    ("kb_dlq_depth", "topic"): frozenset(topic.name for topic in topics.TOPICS),
}


@dataclass(frozen=True, slots=True)
class ExportedSeries:
    """Series of one name."""

    labels: frozenset[str]
    values: Mapping[str, frozenset[str]]
    """All values of those labels that are closed sets."""


def exported_series() -> dict[str, ExportedSeries]:
    """Return what the services export by the name of the series, and `up`, which Prometheus adds."""
    found = {"up": ExportedSeries(OF_EVERY_TARGET, {})}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            for suffix in _SUFFIXES[str(metric._type)]:
                found[metric._name + suffix] = _series(metric, suffix)
    return found


def _series(metric: Any, suffix: str) -> ExportedSeries:
    values = {label: known for (name, label), known in _VALUES.items() if name == metric._name}
    if suffix == "_bucket":
        values["le"] = frozenset(map(_bound, metric._upper_bounds))
    return ExportedSeries(OF_EVERY_TARGET | set(metric._labelnames) | set(values), values)


def _bound(bound: float) -> str:
    return "+Inf" if bound == math.inf else str(bound)
