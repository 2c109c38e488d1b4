"""The series that Prometheus has, with labels and their values: those of the services, and those that it makes."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, get_args

import yaml
from prometheus_client.metrics import MetricWrapperBase

from kb_contracts import topics
from kb_contracts.commands import Reason
from kb_knowledge.store.knowledge_sources import SourceKind
from kb_knowledge.store.source_runs import OPEN, RunTrigger, SourceRunStatus
from kb_reconciler.drift.registry import NAMES
from kb_search.retrieval.stopwatch import SearchStage
from kb_shared.mongo.circuit import Cause
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.observability import metrics
from kb_shared.providers.provider_errors import StatusClass
from tests.deployment.alert_rules import OBSERVABILITY

_OF_EVERY_TARGET: Final = frozenset({"job", "instance"})
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
    ("kb_source_runs", "trigger"): frozenset(RunTrigger),
    ("kb_source_runs", "outcome"): frozenset({*SourceRunStatus, "cancelled"} - {*OPEN}),
    ("kb_source_runs", "kind"): frozenset(SourceKind),
    ("kb_source_runs_open", "state"): frozenset({"waiting", "running"}),
    ("kb_dlq_depth", "topic"): frozenset(topic.name for topic in topics.TOPICS),
}


@dataclass(frozen=True, slots=True)
class KnownSeries:
    """Series of one name."""

    labels: frozenset[str] = frozenset()
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """All values of those labels that are closed sets."""
    is_counter: bool = False
    is_total: bool = False
    """True for a gauge of which each replica exports the total of the deployment."""


def series_in_prometheus(recorded: Iterable[str]) -> dict[str, KnownSeries]:
    """Return what can be queried, by the name of the series.

    Args:
        recorded: names of recording rules, whose results have no labels.
    """
    jobs = _jobs()
    exported = [metric for metric in vars(metrics).values() if isinstance(metric, MetricWrapperBase)]
    return {
        **{name: series for metric in exported for name, series in _series_of(metric, jobs)},
        **{name: KnownSeries() for name in recorded},
        "up": KnownSeries(_OF_EVERY_TARGET, {"job": jobs}),
        "ALERTS": KnownSeries(
            frozenset({"alertname", "alertstate", "severity"}), {"alertstate": frozenset({"pending", "firing"})}
        ),
    }


@cache
def _jobs() -> frozenset[str]:
    configuration = yaml.safe_load((OBSERVABILITY / "prometheus" / "prometheus.yml").read_text())
    return frozenset(job["job_name"] for job in configuration["scrape_configs"])


def _series_of(metric: Any, jobs: frozenset[str]) -> Iterator[tuple[str, KnownSeries]]:
    values = {label: known for (name, label), known in _VALUES.items() if name == metric._name} | {"job": jobs}
    for suffix in _SUFFIXES[str(metric._type)]:
        of_suffix = {"le": frozenset(map(_bound, metric._upper_bounds))} if suffix == "_bucket" else {}
        yield (
            metric._name + suffix,
            KnownSeries(
                _OF_EVERY_TARGET | set(metric._labelnames) | of_suffix.keys(),
                values | of_suffix,
                is_counter=metric._type != "gauge",
                is_total="use max, not sum" in metric._documentation,
            ),
        )


def _bound(bound: float) -> str:
    return "+Inf" if bound == math.inf else str(bound)
