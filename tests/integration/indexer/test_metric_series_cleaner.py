from prometheus_client import REGISTRY

from kb_indexer.metric_series_cleaner import MetricSeriesCleaner
from kb_shared.observability.metrics import CHUNKS_INDEXED, INDEXING_ERRORS
from tests.integration.indexer.support import Tenant

GONE = "0" * 24


def series_of(kb_id: str) -> int:
    return sum(sample.labels.get("kb_id") == kb_id for family in REGISTRY.collect() for sample in family.samples)


async def test_a_replica_drops_the_series_of_a_deleted_knowledge_base_without_a_message(tenant: Tenant) -> None:
    there = await tenant.create_kb("a")
    for kb_id in (there.kb_id, GONE):
        CHUNKS_INDEXED.labels(kb_id).inc()
        INDEXING_ERRORS.labels(kb_id, "bad_answer").inc()
    assert series_of(GONE) > 0

    await MetricSeriesCleaner(tenant.database, interval_s=60).drop()

    assert series_of(GONE) == 0
    assert series_of(there.kb_id) > 0
