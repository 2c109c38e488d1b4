"""Spans of a pass of the reconciler, and the trace of the jobs that it requests."""

from kb_shared.mongo import index_jobs
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability import tracing
from tests.integration.indexer.planted_drift import PLANTS
from tests.integration.indexer.support import Replica, Tenant
from tests.span_receiver import recording_spans


async def test_a_knowledge_base_has_a_trace_of_its_own_in_a_pass_and_the_jobs_of_a_repair_continue_it(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    await PLANTS["missing"](own_tenant, own_indexer, own_filled)
    with recording_spans() as ended:
        await own_indexer.full_pass()
    [whole] = [span for span in ended if span.name == "reconcile pass"]
    [of_kb] = [span for span in ended if span.attributes.get("kb.kb_id") == own_filled.kb_id and span.links]
    assert (of_kb.name, of_kb.parent_id) == ("reconcile knowledge base", None)
    assert [link.span_id for link in of_kb.links] == [whole.span_id]
    assert of_kb.trace_id != whole.trace_id
    assert (of_kb.attributes["kb.drift.found"], of_kb.attributes["kb.drift.repaired"]) == (1, 1)
    assert (whole.attributes["kb.pass"], whole.attributes["kb.drift.repaired"]) == ("full", 1)
    [repair] = [span for span in ended if span.name == "repair missing"]
    assert (repair.parent_id, repair.attributes["kb.documents"]) == (of_kb.span_id, 1)
    job = await own_tenant.database[index_jobs.NAME].find_one({"kb_id": own_filled.kb_id})
    assert job is not None
    assert tracing.trace_id_of(job["traceparent"]) == of_kb.trace_id
