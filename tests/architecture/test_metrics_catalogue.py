"""The catalogue of metrics against its documentation and against the names others rely on."""

import re
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from kb_shared.observability import metrics

ROOT = Path(__file__).parents[2]
DOCUMENTED = re.compile(
    r"^\| `(?P<name>kb_\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*) \| (?P<help>.*) \|$", re.MULTILINE
)
MANDATED = {
    "kb_embedding_cache_hits_total": ("model",),
    "kb_embedding_cache_misses_total": ("model",),
    "kb_embedding_api_calls_total": ("model",),
    "kb_indexing_queue_depth": (),
    "kb_chunks_indexed_total": ("kb_id",),
    "kb_indexing_errors_total": ("kb_id", "error_type"),
    "kb_search_results_count": (),
    "kb_spu_charged_total": ("operation_type",),
}
NEVER_LABELS = {"document_id", "query", "chunk_hash", "organization_id", "error", "path_info", "text"}


def catalogue() -> dict[str, MetricWrapperBase]:
    found = [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]
    return {each._name + ("_total" if each._type == "counter" else ""): each for each in found}


def test_every_metric_is_documented_as_it_is_and_nothing_else_is() -> None:
    text = (ROOT / "docs/reference/metrics.md").read_text()
    documented = {row["name"]: (row["type"], row["labels"], row["help"]) for row in DOCUMENTED.finditer(text)}
    assert documented == {
        name: (each._type, ", ".join(f"`{label}`" for label in each._labelnames) or "none", each._documentation)
        for name, each in catalogue().items()
    }


def test_metrics_that_others_rely_on_have_exactly_their_names_and_labels() -> None:
    known = catalogue()
    assert {name: tuple(known[name]._labelnames) for name in MANDATED} == MANDATED


def test_no_metric_has_a_label_that_grows_with_documents_or_reveals_their_content() -> None:
    assert not [name for name, each in catalogue().items() if NEVER_LABELS & set(each._labelnames)]


def test_every_help_text_is_a_sentence() -> None:
    assert not [name for name, each in catalogue().items() if not each._documentation.endswith(".")]
