"""What Prometheus reads from a whole system."""

import re
from pathlib import Path

import httpx
import pytest

from tests.chaos.workload import paragraph
from tests.e2e.exported import Exported, Series, scrape
from tests.e2e.operations.stocking import http_of_new_organization
from tests.e2e.running_system import RunningSystem
from tests.waiting import until

REFERENCE = Path(__file__).parents[2] / "docs/reference/metrics.md"
DOCUMENTED = re.compile(r"^\| `(?P<name>kb_\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*) \|", re.MULTILINE)
UNFIT = ("error_type", "document_unfit")
OF_EVENTS = {
    "kb_authentication_failures_total",
    "kb_chat_calls_total",
    "kb_chat_request_seconds",
    "kb_chat_tokens_total",
    "kb_check_ins_total",
    "kb_circuits_opened_total",
    "kb_consumer_commit_failures_total",
    "kb_consumer_rebalance_seconds",
    "kb_consumer_replaced_logs_total",
    "kb_consumer_retries_total",
    "kb_consumer_skipped_records_total",
    "kb_consumer_survey_failures_total",
    "kb_dlq_messages_total",
    "kb_embeddings_lost_total",
    "kb_indexing_errors_total",
    "kb_outbox_unsendable_total",
    "kb_producer_replacements_total",
    "kb_ratelimit_rejected_total",
    "kb_ratelimit_wait_seconds",
    "kb_reconciler_repairs_total",
    "kb_retries_total",
    "kb_runs_total",
    "kb_search_filter_rejected_total",
    "kb_spans_dropped_total",
    "kb_webhook_attempts_total",
}
"""Metrics with labels that have no series before an event that a healthy system may never see."""


@pytest.mark.parametrize("number", [8, pytest.param(200, marks=pytest.mark.long)])
async def test_knowledge_bases_that_come_and_go_leave_no_series(running: RunningSystem, number: int) -> None:
    # Whatever happens for the first time has its series afterwards.
    await come_and_go(running, 2)
    before = await scrape(running.system.stack)

    kb_ids, meanwhile = await come_and_go(running, number)

    after = await scrape(running.system.stack)
    assert len(meanwhile.of_knowledge_bases(kb_ids)) >= 2 * number
    assert after.of_knowledge_bases(kb_ids) == set()
    # The lag of a new consumer is measured late, and a rare outcome may be counted for the first time. What grows with
    # KBs does so for each of them.
    grown = {each for each in after.series - before.series if "group" not in each.label_names}
    assert len(grown) < number / 2, grown


async def come_and_go(running: RunningSystem, number: int) -> tuple[list[str], Exported]:
    """Create KBs, let one document be indexed and one fail in each, and delete them; return also what was exported."""
    system = running.system
    (tag,) = await running.create_tags(1)
    options = {"max_chunks_per_document": 1}
    kb_ids = [await system.create_knowledge_base(tag, **options) for _ in range(number)]
    await running.publish(
        running.upstream.ocr(f"short-{tag}", [paragraph(tag)], tags=[tag]),
        running.upstream.ocr(f"long-{tag}", [paragraph(f"{tag} {n}") for n in range(3)], tags=[tag]),
    )

    exported = await scrape(system.stack)

    def counted() -> int:
        # Not the attempts that a busy MongoDB made fail: they may come on top.
        return len([each for each in exported.of_knowledge_bases(kb_ids) if is_expected(each)])

    async def all_are_counted() -> bool:
        nonlocal exported
        exported = await scrape(system.stack)
        return counted() == 2 * number

    await until(all_are_counted, every_s=0.1, progress=counted)
    for kb_id in kb_ids:
        (await system.http.delete(f"/knowledge-bases/{kb_id}")).raise_for_status()

    left = exported

    async def all_are_forgotten() -> bool:
        nonlocal left
        left = await scrape(system.stack)
        return not left.of_knowledge_bases(kb_ids)

    await until(all_are_forgotten, every_s=0.1, progress=lambda: len(left.of_knowledge_bases(kb_ids)))
    return kb_ids, exported


async def curate_knowledge(http: httpx.AsyncClient) -> None:
    """Import an entity, run a source, and send what is refused."""
    refused = {"title": "Access", "content": "The password: " + "Tr0ub4dor" + "&3x"}
    assert (await http.post("/knowledge-entries", json=refused)).status_code == 422
    imported = {"metadata": {"user:alice": {"entity_type": "user", "properties": {"team": "aero"}}}}
    (await http.post("/knowledge:import", json=imported)).raise_for_status()
    file = await http.post("/knowledge-sources/files?filename=a.md", content=b"# Hotels")
    config = {"filename": "a.md", "file_id": file.raise_for_status().json()["file_id"]}
    body = {"label": "Hotels", "kind": "file_upload", "config": config}
    source = (await http.post("/knowledge-sources", json=body)).raise_for_status().json()
    (await http.post(f"/knowledge-sources/{source['source_id']}/run")).raise_for_status()
    address = {"label": "Wiki", "kind": "url_crawl", "config": {"url": "https://a:b@example.com/"}}
    assert (await http.post("/knowledge-sources", json=address)).status_code == 422


def is_expected(series: Series) -> bool:
    """Return whether this counts chunks, or documents that can't be indexed."""
    return series.metric == "kb_chunks_indexed_total" or UNFIT in series.labels


async def test_every_documented_metric_is_exported_with_its_type_and_labels(running: RunningSystem) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    await running.publish(running.upstream.ocr(f"measured-{tag}", [paragraph(tag)], tags=[tag]))
    await running.system.until_found(kb_id, [f"measured-{tag}"])
    async with http_of_new_organization(running) as http:
        await curate_knowledge(http)
    documented = {
        row["name"]: (row["type"], frozenset(re.findall(r"`(\w+)`", row["labels"])))
        for row in DOCUMENTED.finditer(REFERENCE.read_text())
    }
    exported = await scrape(running.system.stack)

    def missing() -> frozenset[str]:
        return frozenset(documented) - OF_EVENTS - {each.metric for each in exported.series}

    async def all_are_measured() -> bool:
        nonlocal exported
        exported = await scrape(running.system.stack)
        return not missing()

    await until(all_are_measured, every_s=0.25, progress=missing)
    assert exported.types == {name: {kind} for name, (kind, _) in documented.items()}
    assert not [each for each in exported.series if each.label_names != documented[each.metric][1]]
    assert documented.keys() >= OF_EVENTS
