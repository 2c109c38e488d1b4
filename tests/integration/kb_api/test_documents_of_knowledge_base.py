from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_api import indexing_progress
from kb_contracts.commands import Reason
from kb_shared.mongo import index_jobs
from kb_shared.mongo.document_index import IndexingWork
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_usage import USD_PER_SPU, charged

OTHER_KB = "1" * 24


@pytest.fixture
async def kb_id(organization: OrganizationClient) -> str:
    """A KB with a document in each state, and one that is indexed while a newer text of it is being worked on."""
    kb_id: str = (await organization.create())["kb_id"]
    await organization.index(kb_id, "d1-indexed", name="Annual Report", chunks=3)
    await organization.index(kb_id, "d2-empty", name="Blank (scan)", chunks=0)
    await organization.index(kb_id, "d3-again", name="Annual Plan", chunks=5)
    await organization.running_job(kb_id, "d3-again")
    for document_id in ("d4-pending", "d5-running", "d6-failed"):
        await organization.project(document_id, name=f"Name of {document_id}")
    await organization.open_job(kb_id, "d4-pending")
    await organization.running_job(kb_id, "d5-running")
    await organization.failed_job(kb_id, "d6-failed", error_type="document_unfit", error_message="too many chunks")
    await organization.waiting_job(kb_id, "d7-waiting")
    return kb_id


async def documents(organization: OrganizationClient, kb_id: str, **params: object) -> tuple[list[dict[str, Any]], int]:
    answer = await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents", **params)
    return answer["documents"], answer["total_count"]


STATES = {
    "d1-indexed": "indexed",
    "d2-empty": "empty",
    "d3-again": "running",
    "d4-pending": "pending",
    "d5-running": "running",
    "d6-failed": "failed",
    "d7-waiting": "waiting_for_text",
}


async def test_without_status_what_is_indexed_is_listed_whatever_is_open_for_it(
    organization: OrganizationClient, kb_id: str
) -> None:
    listed, total_count = await documents(organization, kb_id)
    assert [(one["document_id"], one["status"], one["chunk_count"]) for one in listed] == [
        ("d1-indexed", "indexed", 3),
        ("d2-empty", "empty", 0),
        ("d3-again", "indexed", 5),
    ]
    assert total_count == 3
    assert all(one["indexed_at"] for one in listed)


async def test_all_shows_each_document_once_with_what_is_open_for_it(
    organization: OrganizationClient, kb_id: str
) -> None:
    listed, total_count = await documents(organization, kb_id, status="all")
    assert {one["document_id"]: one["status"] for one in listed} == STATES
    assert total_count == len(listed) == len(STATES)


@pytest.mark.parametrize(
    ("sort", "status", "expected"),
    [
        ("-document_id", "indexed", ["d3-again", "d1-indexed"]),
        ("chunk_count", None, ["d2-empty", "d1-indexed", "d3-again"]),
        ("-indexed_at", None, ["d3-again", "d2-empty", "d1-indexed"]),
        # The last one has no name yet, and those of jobs come from the projection.
        (
            "-document_name",
            "all",
            ["d6-failed", "d5-running", "d4-pending", "d2-empty", "d1-indexed", "d3-again", "d7-waiting"],
        ),
    ],
)
async def test_documents_are_sorted(
    organization: OrganizationClient, kb_id: str, sort: str, status: str | None, expected: list[str]
) -> None:
    asked = {"sort": sort} | ({"status": status} if status else {})
    listed, _ = await documents(organization, kb_id, **asked)
    assert [one["document_id"] for one in listed] == expected
    second, _ = await documents(organization, kb_id, **asked, skip=1, limit=1)
    assert second == listed[1:2]


@pytest.mark.parametrize("status", ["empty", "waiting_for_text", "pending", "running", "failed"])
async def test_a_status_selects_the_documents_that_are_in_it(
    organization: OrganizationClient, kb_id: str, status: str
) -> None:
    listed, total_count = await documents(organization, kb_id, status=status)
    expected = [document_id for document_id, state in STATES.items() if state == status]
    assert [one["document_id"] for one in listed] == expected
    assert {one["status"] for one in listed} == {status}
    assert total_count == len(expected)


async def test_a_document_that_is_worked_on_again_still_says_what_is_searchable(
    organization: OrganizationClient, kb_id: str
) -> None:
    listed, _ = await documents(organization, kb_id, status="running")
    again, first = listed
    assert (again["document_name"], again["chunk_count"]) == ("Annual Plan", 5)
    assert (first["document_name"], first["chunk_count"], first["indexed_at"]) == ("Name of d5-running", 0, None)


async def test_a_failure_says_why_and_after_how_many_attempts(organization: OrganizationClient, kb_id: str) -> None:
    [failed], _ = await documents(organization, kb_id, status="failed")
    assert failed["error"] == {"type": "document_unfit", "message": "too many chunks"}
    assert (failed["attempts"], failed["next_attempt_at"]) == (1, None)


async def test_a_document_whose_text_has_not_come_has_no_name_yet(organization: OrganizationClient, kb_id: str) -> None:
    [waiting], _ = await documents(organization, kb_id, status="waiting_for_text")
    assert waiting["document_name"] is None


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"name_search": "annual"}, ["d1-indexed", "d3-again"]),
        ({"name_search": "(SCAN)"}, ["d2-empty"]),
        ({"name_search": "."}, []),
        ({"name_search": "annual", "status": "running"}, ["d3-again"]),
        ({"name_search": "name of", "status": "all"}, ["d4-pending", "d5-running", "d6-failed"]),
        ({"name_search": "name of d6", "status": "failed"}, ["d6-failed"]),
    ],
)
async def test_name_search_finds_parts_of_names_in_every_state(
    organization: OrganizationClient, kb_id: str, params: dict[str, str], found: list[str]
) -> None:
    listed, total_count = await documents(organization, kb_id, **params)
    assert [one["document_id"] for one in listed] == found
    assert total_count == len(found)


@pytest.mark.parametrize("status", [None, "all"])
async def test_pages_add_up_to_the_whole_list(organization: OrganizationClient, kb_id: str, status: str | None) -> None:
    only = {"status": status} if status else {}
    whole, total_count = await documents(organization, kb_id, **only)
    pages = [await documents(organization, kb_id, skip=skip, limit=2, **only) for skip in range(0, total_count, 2)]
    assert [one for page, _ in pages for one in page] == whole
    assert {total for _, total in pages} == {total_count}
    assert await documents(organization, kb_id, skip=total_count, **only) == ([], total_count)


async def test_another_knowledge_base_with_the_same_documents_does_not_mix_in(
    organization: OrganizationClient, kb_id: str
) -> None:
    other = (await organization.create())["kb_id"]
    await organization.failed_job(other, "d1-indexed", error_type="x", error_message="y")
    assert {
        one["document_id"]: one["status"] for one in (await documents(organization, kb_id, status="all"))[0]
    } == STATES
    assert [one["status"] for one in (await documents(organization, other, status="all"))[0]] == ["failed"]


async def test_an_unknown_status_is_refused(organization: OrganizationClient, kb_id: str) -> None:
    path = f"/knowledge-bases/{kb_id}/documents"
    assert await organization.refused("GET", path, status="lost") == (422, "validation-error")


async def test_stats_compare_what_is_in_with_what_carries_the_tags(organization: OrganizationClient) -> None:
    await organization.tag("t")
    kb_id = (await organization.create(tag_ids=["t"]))["kb_id"]
    for document_id in ("d1", "d2"):
        await organization.project(document_id, name="n", tag_ids=("t",))
    await organization.index(kb_id, "d1", name="n", chunks=3)
    stats = await organization.ok("GET", f"/knowledge-bases/{kb_id}/stats")
    assert (stats["document_count"], stats["chunk_count"], stats["total_documents_with_tags"]) == (1, 3, 2)
    assert stats["last_indexed_at"] is not None
    assert stats["search_indexes"] == []


async def test_stats_say_how_far_and_how_fast_documents_are_indexed(organization: OrganizationClient) -> None:
    await organization.tag("t")
    kb_id = (await organization.create(tag_ids=["t"]))["kb_id"]
    for n in range(5):
        await organization.project(f"d{n}", name="n", tag_ids=("t",))
    path = f"/knowledge-bases/{kb_id}/stats"
    before = await organization.ok("GET", path)
    assert (before["progress"], before["eta_s"], before["cache_hit_ratio"]) == (0, None, None)
    await organization.index(kb_id, "d0", name="n", chunks=4, work=IndexingWork(2.0, 1, 3))
    await organization.index(kb_id, "d1", name="n", chunks=0, work=IndexingWork(1.0, 0, 0))
    await organization.failed_job(kb_id, "d2", error_type="x", error_message="y")
    await organization.running_job(kb_id, "d3")
    await organization.open_job(kb_id, "d4")
    await organization.waiting_job(kb_id, "d5")
    stats = await organization.ok("GET", path)
    assert stats["states"] == {
        "indexed": 1,
        "empty": 1,
        "pending": 1,
        "running": 1,
        "waiting_for_text": 1,
        "failed": 1,
        "paused": 0,
    }
    assert (stats["mean_indexing_s"], stats["cache_hit_ratio"]) == (1.5, 0.75)
    # The two that are open count as the two that are done: their lengths are not known.
    assert (stats["progress"], stats["remaining_chunk_count"], stats["eta_s"]) == (0.5, 4, None)
    now = datetime.now(UTC)
    for n in range(5):
        await charged(organization, 4, now - timedelta(hours=1, seconds=4 * n), kb_id=OTHER_KB)
    # At one vector a second, of which the documents need a quarter.
    assert (await organization.ok("GET", path))["eta_s"] == 1
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/pause")
    assert (await organization.ok("GET", path))["eta_s"] is None


@pytest.mark.usefixtures("within_a_month")
async def test_stats_tell_what_the_knowledge_base_cost_ever_and_this_month(organization: OrganizationClient) -> None:
    kb_id, other = [(await organization.create(name=name))["kb_id"] for name in ("one", "other")]
    now = datetime.now(UTC)
    for of, count, at in ((kb_id, 3, now), (kb_id, 40, now - timedelta(days=32)), (other, 500, now)):
        await charged(organization, count, at, kb_id=of)
    stats = await organization.ok("GET", f"/knowledge-bases/{kb_id}/stats")
    assert (stats["spus"], stats["spus_this_month"]) == (43, 3)
    assert (stats["usd"], stats["usd_this_month"]) == (43 * USD_PER_SPU, 3 * USD_PER_SPU)


@pytest.mark.usefixtures("living")
async def test_stats_have_the_sizes_of_what_is_stored(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    await organization.until_status(kb_id, "indexing")
    kb = await organization.stored(kb_id)
    await organization.database[kb.vector_collection].insert_one({"text": "x" * 1_000})
    storage = (await organization.ok("GET", f"/knowledge-bases/{kb_id}/stats"))["storage"]
    assert storage["chunk_bytes"] > 1_000
    assert storage["stored_bytes"] > 0
    assert storage["index_bytes"] == sum(storage["indexes"].values()) > 0
    assert "_id_" in storage["indexes"]


async def test_a_document_counts_by_its_chunks_and_by_the_length_of_its_text_before_it_is_cut(
    organization: OrganizationClient,
) -> None:
    await organization.tag("t")
    kb_id = (await organization.create(tag_ids=["t"]))["kb_id"]
    path = f"/knowledge-bases/{kb_id}/stats"
    await organization.project("small", name="n", tag_ids=("t",), length=1_000)
    await organization.index(kb_id, "small", name="n", chunks=2, text_id="t")
    await organization.project("large", name="n", tag_ids=("t",), length=49_000)
    command = await organization.open_job(kb_id, "large")
    stats = await organization.ok("GET", path)
    assert (stats["progress"], stats["remaining_chunk_count"]) == (0.02, 98)

    job = await organization.claim(command)
    await index_jobs.note_embedded(organization.database, job, chunks=198, embedded=100)
    stats = await organization.ok("GET", path)
    assert (stats["progress"], stats["remaining_chunk_count"]) == (0.51, 98)
    listed, _ = await documents(organization, kb_id, status="running")
    assert [one["embedding"] for one in listed] == [{"chunk_count": 198, "embedded_count": 100}]
    view = await organization.ok("GET", "/documents/large")
    assert view["knowledge_bases"][0]["embedding"] == {"chunk_count": 198, "embedded_count": 100}
    explained = await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents/large/explain")
    assert explained["job"]["embedding"] == {"chunk_count": 198, "embedded_count": 100}


async def test_documents_that_keep_their_text_need_no_vectors(organization: OrganizationClient) -> None:
    await organization.tag("t")
    kb_id = (await organization.create(tag_ids=["t"]))["kb_id"]
    for n in range(4):
        await organization.project(f"d{n}", name="n", tag_ids=("t",), length=7_000)
        await organization.index(kb_id, f"d{n}", name="n", chunks=10, text_id="t")
    await organization.open_job(kb_id, "d0")
    now = datetime.now(UTC)
    for n in range(5):
        await charged(organization, 1, now - timedelta(seconds=100 * n), kb_id=kb_id)
    stats = await organization.ok("GET", f"/knowledge-bases/{kb_id}/stats")
    # Not a thousand seconds, as its chunks would take at that pace; how long documents take is not known yet.
    assert (stats["progress"], stats["remaining_chunk_count"], stats["eta_s"]) == (0.75, 10, None)


async def test_of_many_jobs_that_wait_the_others_count_as_those_that_were_read(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing_progress, "_MOST_READ", 2)
    await organization.tag("t")
    kb_id = (await organization.create(tag_ids=["t"]))["kb_id"]
    for n in range(6):
        await organization.project(f"d{n}", name="n", tag_ids=("t",), length=15_360)
        await organization.open_job(kb_id, f"d{n}")
    stats = await organization.ok("GET", f"/knowledge-bases/{kb_id}/stats")
    # A text of 15,360 characters has ten chunks of 512 tokens, as far as anything is known.
    assert (stats["progress"], stats["remaining_chunk_count"]) == (0, 60)


async def test_what_waits_after_an_error_has_no_end_that_is_known(organization: OrganizationClient) -> None:
    await organization.tag("t")
    kb_id = (await organization.create(tag_ids=["t"]))["kb_id"]
    path = f"/knowledge-bases/{kb_id}/stats"
    await organization.project("d", name="n", tag_ids=("t",), length=7_000)
    job = await organization.running_job(kb_id, "d")
    now = datetime.now(UTC)
    for n in range(5):
        await charged(organization, 4, now - timedelta(seconds=4 * n), kb_id=kb_id)
    assert (await organization.ok("GET", path))["eta_s"] > 0
    await index_jobs.postpone(
        organization.database, job, delay=timedelta(hours=1), error_type="provider_unavailable", error_message="x"
    )
    stats = await organization.ok("GET", path)
    assert (stats["progress"], stats["eta_s"]) == (0, None)


@pytest.mark.parametrize(
    ("reason", "late", "requested_before", "expected"),
    [
        (Reason.OCR, timedelta(minutes=1), timedelta(0), True),
        # It is read as soon as it is published.
        (Reason.OCR, timedelta(seconds=1), timedelta(0), False),
        # It was the last one.
        (Reason.OCR, timedelta(minutes=1), timedelta(minutes=1), False),
        # What a scan has not requested yet is counted.
        (Reason.BACKFILL, timedelta(minutes=1), timedelta(0), False),
    ],
)
async def test_no_end_is_told_while_events_are_read_late(
    organization: OrganizationClient, reason: Reason, late: timedelta, requested_before: timedelta, expected: bool
) -> None:
    await organization.tag("t")
    kb_id = (await organization.create(tag_ids=["t"]))["kb_id"]
    await organization.project("d", name="n", tag_ids=("t",), length=7_000)
    await organization.open_job(kb_id, "d")
    requested_at = datetime.now(UTC) - requested_before
    await organization.database[index_jobs.NAME].update_one(
        {"kb_id": kb_id},
        {"$set": {"reason": reason, "requested_at": requested_at, "occurred_at": requested_at - late}},
    )
    now = datetime.now(UTC)
    for n in range(5):
        await charged(organization, 4, now - timedelta(seconds=4 * n), kb_id=kb_id)
    stats = await organization.ok("GET", f"/knowledge-bases/{kb_id}/stats")
    assert stats["more_arriving"] is expected
    assert (stats["eta_s"] is None) is expected
