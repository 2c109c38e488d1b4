"""The number of series of KBs is limited, whatever is created and deleted."""

from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY, generate_latest

from kb_shared.observability.knowledge_base_series import DEFAULT_LIMIT
from kb_shared.observability.metrics import (
    CHUNKS_INDEXED,
    INDEXING_ERRORS,
    forget_knowledge_base,
    knowledge_bases_with_series,
    limit_knowledge_bases,
)

KB_IDS = [f"{n:024x}" for n in range(4)]


@pytest.fixture(autouse=True)
def room_for_two() -> Iterator[None]:
    limit_knowledge_bases(len(knowledge_bases_with_series()) + 2)
    yield
    limit_knowledge_bases(DEFAULT_LIMIT)
    for kb_id in KB_IDS:
        forget_knowledge_base(kb_id)


def chunks(kb_id: str) -> float:
    return REGISTRY.get_sample_value("kb_chunks_indexed_total", {"kb_id": kb_id}) or 0


def errors(kb_id: str) -> float:
    labels = {"kb_id": kb_id, "error_type": "internal_error"}
    return REGISTRY.get_sample_value("kb_indexing_errors_total", labels) or 0


def test_kbs_beyond_the_limit_are_counted_together_until_one_of_the_others_is_deleted() -> None:
    first, second, third, fourth = KB_IDS
    before = chunks("_other"), errors("_other")
    for number, kb_id in enumerate(KB_IDS, start=1):
        CHUNKS_INDEXED.labels(kb_id).inc(number)
        INDEXING_ERRORS.labels(kb_id, "internal_error").inc()
    assert [chunks(kb_id) for kb_id in KB_IDS] == [1, 2, 0, 0]
    assert [errors(kb_id) for kb_id in KB_IDS] == [1, 1, 0, 0]
    assert (chunks("_other"), errors("_other")) == (before[0] + 3 + 4, before[1] + 2), "nothing is lost"

    forget_knowledge_base(first)
    CHUNKS_INDEXED.labels(third).inc()
    CHUNKS_INDEXED.labels(fourth).inc()
    assert [chunks(kb_id) for kb_id in KB_IDS] == [0, 2, 1, 0]
    assert chunks("_other") == before[0] + 3 + 4 + 1
    assert {second, third} <= knowledge_bases_with_series()
    assert not {first, fourth, "_other"} & knowledge_bases_with_series(), "the last one is no KB that can be deleted"


def test_no_series_says_when_another_one_was_created() -> None:
    CHUNKS_INDEXED.labels(KB_IDS[0]).inc()
    assert b"_created" not in generate_latest()
