import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_contracts import topics
from kb_contracts.cloudevents import decode, encode
from kb_contracts.documents import DOCUMENT_EVENTS, DocumentDeleted, OcrCompleted
from kb_contracts.errors import Rejected
from kb_contracts.outcomes import DocumentIndexed, DocumentIndexFailed, DocumentRejected
from kb_knowledge.entry_events import event_id
from kb_knowledge.watch_pending import note_waiting
from kb_shared.mongo import audit_log, citations, document_index, knowledge_bases, knowledge_entries, vectors
from kb_shared.mongo.citations import RunCitation
from kb_shared.mongo.database import in_transaction
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import UNKNOWN_DIMENSIONS, Status
from kb_shared.mongo.knowledge_entries import EntryKey, KnowledgeEntry
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import Tenant, record, text_of
from tests.integration.knowledge.author import Author


async def published(author: Author) -> list[Any]:
    """The events of entries that were not handled yet."""
    messages = await author.messages(topics.KNOWLEDGE_DOCUMENT_EVENTS)
    return [decode(message.value, DOCUMENT_EVENTS)[1] for message in messages]


async def live_texts(author: Author, entry_id: str) -> list[str]:
    return [chunk["text"] for chunk in (await author.ok("GET", f"/{entry_id}/chunks"))["chunks"]]


async def test_an_entry_is_stored_with_one_event_about_its_document(author: Author) -> None:
    entry = await author.write(
        "Use RANS first.", entry_id="les-rans-init", tags=["les", "les"], knowledge_type="Procedure", entity_id="user:a"
    )
    assert entry["embedding_status"] == "pending"
    assert (entry["tags"], entry["type"], entry["source_type"]) == (["les"], "note", "note")
    assert (entry["knowledge_type"], entry["info_type"], entry["cites_30d"]) == ("procedure", "context", 0)
    assert await author.read("les-rans-init") == entry
    [event] = await published(author)
    assert isinstance(event, OcrCompleted)
    assert (event.document_id, event.revision) == ("entry-les-rans-init", entry["revision"])
    assert (event.text, event.tag_ids) == ("Use RANS first.", ["les", "kb.knowledge"])
    assert event.metadata == {
        "type": "note",
        "knowledge_type": "procedure",
        "info_type": "context",
        "entity_id": "user:a",
    }


async def test_fields_of_entries_are_checked(author: Author) -> None:
    titled = {"title": "t", "content": "c"}
    for wrong in (
        {"content": "c"},
        {"title": "t"},
        {"title": "t", "content": " \n"},
        titled | {"type": "Rule"},
        titled | {"tags": ["kb.mine"]},
        titled | {"tags": [str(n) for n in range(21)]},
        titled | {"entry_id": "a/b"},
        titled | {"knowledge_type": "opinion"},
        titled | {"unknown": 1},
    ):
        assert await author.refused("POST", "", json=wrong) == (422, "validation-error")
    secret = {"title": "t", "content": "password = hunter2-Xy77-kk"}
    assert await author.refused("POST", "", json=secret) == (422, "sensitive-content")
    tagged = titled | {"tags": ["a", "ghp_" + "q7Wc2ZrT9vXb4KmN8sLd3FgH6jPy1AeUo5Ri"]}
    assert await author.refused("POST", "", json=tagged) == (422, "sensitive-content")
    assert (await author.write("First line\nand more", title=None, knowledge_type="fact"))["title"] == "First line"
    await author.write(entry_id="mine")
    assert await author.refused("POST", "", json=titled | {"entry_id": "mine"}) == (409, "entry-exists")
    assert len(await published(author)) == 2


async def test_a_person_can_say_why_a_text_has_no_credential_and_the_audit_log_keeps_the_reason(author: Author) -> None:
    text = "On each poster: the password is Meadow44lark."
    refused = await author.request("POST", "", json={"title": "Demo", "content": text})
    assert (refused.status_code, "override_reason" in refused.json()["detail"]) == (422, True)
    reason = "Everybody may know the password of the demo."
    entry = await author.write(text, override_reason=reason)
    assert await author.refused("PATCH", f"/{entry['entry_id']}", json={"content": f"{text} Ask us."}) == (
        422, "sensitive-content",
    )  # fmt: skip
    changed = {"content": f"{text} Ask us.", "override_reason": f"{reason} Still."}
    assert (await author.ok("PATCH", f"/{entry['entry_id']}", json=changed))["content"].endswith("Ask us.")
    # A reason is kept where there was something to override, and is no way around the check.
    await author.write("Harmless.", override_reason="Just in case.")
    secret = {"title": "t", "content": text, "override_reason": "password = Kx77-q2Zw!"}
    assert await author.refused("POST", "", json=secret) == (422, "sensitive-content")
    assert await author.refused("POST", "", json=secret | {"override_reason": "     "}) == (422, "validation-error")

    rows = author.database[audit_log.NAME].find({"organization_id": author.organization_id}).sort("_id")
    kept = [(row["operation"], row["status"], row["reason"]) async for row in rows]
    assert [each for each in kept if each[2]] == [
        ("knowledge_entries.create", 201, reason),
        ("knowledge_entries.update", 200, f"{reason} Still."),
    ]
    assert "Kx77" not in str(kept)


async def test_a_repeated_request_creates_one_entry(author: Author) -> None:
    requests = [
        author.request("POST", "", json={"title": "t", "content": "c"}, headers={"Idempotency-Key": "one"})
        for _ in range(2)
    ]
    first, second = [await request for request in requests]
    assert first.json() == second.json()
    assert len(await published(author)) == 1


async def test_the_first_entries_make_one_knowledge_base_without_its_model(author: Author) -> None:
    await asyncio.gather(*(author.write(f"Text {n}.") for n in range(4)))
    [kb] = await knowledge_bases.find_of_organization(author.database, author.organization_id)
    assert (kb.kind, kb.name, kb.tag_ids, kb.status) == ("knowledge", "Knowledge", ("kb.knowledge",), Status.CREATING)
    assert kb.embedding_dimensions == UNKNOWN_DIMENSIONS
    assert await knowledge_bases.count(author.database, author.organization_id) == 0


async def test_an_entry_becomes_ready_when_it_is_indexed(author: Author) -> None:
    entry_id = (await author.write(text_of(1, 2)))["entry_id"]
    # The dimensions of the vectors are not known yet, so its job waits.
    await author.index()
    assert await author.status(entry_id) == "pending"
    kb = await author.build_knowledge_base()
    assert kb.embedding_dimensions == 16
    await author.index()
    assert await author.status(entry_id) == "ready"
    [first, _] = (await author.ok("GET", f"/{entry_id}/chunks"))["chunks"]
    assert first["embedding_provider"] == "local/hash-16"
    assert first["character_count"] == len(first["text"])
    assert "embedding" not in first


async def test_a_change_keeps_the_id_and_what_did_not_change_costs_nothing(author: Author) -> None:
    entry_id = (await author.write(text_of(1, 2)))["entry_id"]
    kb = await author.build_knowledge_base()
    await author.index()
    before = await author.read(entry_id)
    changed = await author.ok("PATCH", f"/{entry_id}", json={"content": text_of(1, 3)})
    assert (changed["entry_id"], changed["embedding_status"]) == (entry_id, "pending")
    assert changed["revision"] > before["revision"]
    assert changed["content_hash"] != before["content_hash"]
    assert await live_texts(author, entry_id) == [text_of(1), text_of(2)]
    await author.index()
    assert await author.status(entry_id) == "ready"
    assert await live_texts(author, entry_id) == [text_of(1), text_of(3)]
    row = await document_index.find(
        author.database, MembershipKey(author.organization_id, kb.kb_id, f"entry-{entry_id}")
    )
    assert row is not None
    assert row.work is not None
    assert row.work.embeddings == 1


async def test_a_change_of_nothing_is_no_event(author: Author) -> None:
    entry = await author.write("Same.", tags=["a"])
    await published(author)
    assert await author.ok("PATCH", f"/{entry['entry_id']}", json={"content": "Same.", "tags": ["a"]}) == entry
    assert await published(author) == []


async def test_a_stale_etag_is_refused(author: Author) -> None:
    created = await author.request("POST", "", json={"title": "t", "content": "c"})
    path, stale = f"/{created.json()['entry_id']}", {"If-Match": created.headers["etag"]}
    changed = await author.request("PATCH", path, json={"title": "u"}, headers=stale)
    assert changed.headers["etag"] != created.headers["etag"]
    assert await author.refused("PATCH", path, json={"title": "v"}, headers=stale) == (412, "precondition-failed")
    assert (await author.read(created.json()["entry_id"]))["title"] == "u"


async def test_a_deleted_entry_takes_its_chunks_and_citations_and_comes_back_with_a_greater_revision(
    author: Author,
) -> None:
    await author.write(text_of(1), entry_id="mine")
    kb = await author.build_knowledge_base()
    await author.index()
    await cite(author, kb.kb_id, "mine")
    assert (await author.read("mine"))["cites_30d"] == 1
    await author.ok("DELETE", "/mine")
    assert (await author.request("GET", "/mine")).status_code == 404
    assert await author.refused("DELETE", "/mine") == (404, "not-found")
    again = await author.write(text_of(2), entry_id="mine")
    deletion, creation = await published(author)
    assert isinstance(deletion, DocumentDeleted)
    assert creation.revision == again["revision"] > deletion.revision
    assert again["cites_30d"] == (await author.read("mine"))["cites_30d"] == 0
    await author.indexer.publish_knowledge(deletion)
    await author.index()
    assert await vectors.count_live(vectors.chunks_of(author.database, kb), ["entry-mine"]) == {}
    await author.indexer.publish_knowledge(creation)
    await author.index()
    assert await live_texts(author, "mine") == [text_of(2)]


async def cite(author: Author, kb_id: str, entry_id: str) -> None:
    now = datetime.now(UTC)
    cited = RunCitation(
        organization_id=author.organization_id,
        run_id=f"run-of-{author.organization_id}",
        thread_id=None,
        agent_id=None,
        origin="sdk",
        kb_id=kb_id,
        document_id=f"entry-{entry_id}",
        document_name="Title",
        chunk_id=f"entry-{entry_id}:0:0",
        in_context=True,
        cited=True,
        answered_at=now,
        expires_at=now + timedelta(days=90),
    )
    await citations.insert(author.database, [cited])


async def test_an_outcome_of_an_older_revision_or_another_knowledge_base_changes_nothing(author: Author) -> None:
    old = await author.write(entry_id="e")
    kb = await author.knowledge_base()
    new = await author.ok("PATCH", "/e", json={"content": "New."})
    organization = {"organization_id": author.organization_id}
    document = {**organization, "document_id": "entry-e"}
    for stale in (
        DocumentIndexed(**document, kb_id=kb.kb_id, revision=old["revision"], chunk_count=1),
        DocumentIndexed(**document, kb_id="65f000000000000000000000", revision=new["revision"], chunk_count=1),
        DocumentIndexFailed(**document, kb_id=kb.kb_id, error_type="e", message="m", revision=old["revision"]),
        DocumentIndexFailed(**document, kb_id=kb.kb_id, error_type="e", message="m"),
        rejection(author, "e", revision=old["revision"]),
    ):
        await author.outcomes.handle(record(encode(stale, source="/kb/indexer"), topic="kb-events"))
        assert await author.read("e") == new


def rejection(author: Author, entry_id: str, *, revision: int) -> DocumentRejected:
    key = EntryKey(author.organization_id, entry_id)
    return DocumentRejected(
        organization_id=author.organization_id,
        document_id=key.document.document_id,
        reason="too-large",
        detail="It is too large.",
        event_id=event_id(key, revision=revision),
    )


async def test_a_rejected_event_is_an_error_and_a_retry_publishes_it_again(author: Author) -> None:
    entry = await author.write(entry_id="e")
    assert await author.refused("POST", "/e/retry") == (409, "entry-not-failed")
    await published(author)
    rejected = rejection(author, "e", revision=entry["revision"])
    await author.outcomes.handle(record(encode(rejected, source="/kb/outbox"), topic="kb-events"))
    failed = await author.read("e")
    assert failed["embedding_error"] == {"type": "too-large", "message": "It is too large.", "next_attempt_at": None}
    retried = await author.ok("POST", "/e/retry")
    assert (retried["embedding_status"], retried["embedding_error"]) == ("pending", None)
    [event] = await published(author)
    assert (event.text, event.revision) == (entry["content"], retried["revision"])


async def test_an_outcome_of_a_type_of_a_later_version_is_passed_over_and_a_broken_one_is_refused(
    author: Author,
) -> None:
    outcome = DocumentIndexed(
        organization_id=author.organization_id, kb_id="0" * 24, document_id="entry-a", revision=1, chunk_count=1
    )
    value = encode(outcome, source="/kb/indexer")
    await author.outcomes.handle(record(value.replace(outcome.TYPE.encode(), b"document.invented.v1"), key=b""))
    with pytest.raises(Rejected):
        await author.outcomes.handle(record(value.replace(b'"revision":1', b'"revision":[]'), key=b""))


async def test_an_entry_that_waits_for_its_provider_shows_why_and_heals_by_itself(author: Author) -> None:
    entry_id = (await author.write(text_of(1)))["entry_id"]
    await author.index()
    assert await note_waiting(author.database, age=timedelta(0)) == 1
    failed = await author.read(entry_id)
    assert failed["embedding_status"] == "error"
    assert failed["embedding_error"]["type"] == "knowledge_base_not_ready"
    assert failed["embedding_error"]["next_attempt_at"] is not None
    await author.build_knowledge_base()
    await author.index()
    healed = await author.read(entry_id)
    assert (healed["embedding_status"], healed["embedding_error"]) == ("ready", None)


async def test_while_the_provider_is_away_entries_are_pending_then_errors_and_heal_by_themselves(
    author: Author, provider: ModelControls
) -> None:
    before = (await author.write(text_of(1)))["entry_id"]
    await author.build_knowledge_base()
    await author.index()
    await provider.program_faults({"status": 503})
    new = (await author.write(text_of(2)))["entry_id"]
    await author.ok("PATCH", f"/{before}", json={"content": text_of(3)})
    await author.index()
    assert [await author.status(each) for each in (before, new)] == ["pending", "pending"]
    assert await note_waiting(author.database, age=timedelta(0)) == 2
    for entry_id in (before, new):
        failed = await author.read(entry_id)
        assert (failed["embedding_status"], failed["embedding_error"]["type"]) == ("error", "provider_5xx")
        assert failed["embedding_error"]["next_attempt_at"] is not None
    # What was searchable still is, and a change of what failed is one more state to wait for.
    assert await live_texts(author, before) == [text_of(1)]
    changed = await author.ok("PATCH", f"/{before}", json={"content": text_of(4)})
    assert (changed["embedding_status"], changed["embedding_error"]) == ("pending", None)

    await provider.program_faults()
    await Tenant(author.database, author.organization_id).make_due()
    await author.index()
    assert [await author.status(each) for each in (before, new)] == ["ready", "ready"]
    assert await live_texts(author, before) == [text_of(4)]


async def test_all_who_wrote_an_entry_are_its_authors_until_its_content_is_replaced(author: Author) -> None:
    entry_id = (await author.write("Text."))["entry_id"]
    key = EntryKey(author.organization_id, entry_id)
    entry = await knowledge_entries.get(author.database, key)
    first = entry.created_by
    assert entry.authors == (first,)
    for by, fields, authors in (
        ("other", {"title": "New title"}, (first, "other")),
        (first, {"tags": ("a",)}, (first, "other")),
        ("other", {"content": "New."}, ("other",)),
        (first, {"source_id": "s1", "content": "Fetched."}, None),
    ):
        entry = await change(author, entry, by=by, **fields)
        assert entry.authors == authors
    await in_transaction(
        author.database,
        lambda session: knowledge_entries.unlink_source(
            author.database, session, author.organization_id, source_id="s1"
        ),
    )
    entry = await knowledge_entries.get(author.database, key)
    assert (await change(author, entry, by=first, tags=("b",))).authors is None
    assert (await change(author, entry, by=first, content="Mine.")).authors == (first,)


async def change(author: Author, entry: KnowledgeEntry, *, by: str, **fields: Any) -> KnowledgeEntry:
    await in_transaction(
        author.database,
        lambda session: knowledge_entries.change(author.database, session, entry, fields=fields, by=by),
    )
    return await knowledge_entries.get(author.database, entry.key)


async def test_pages_show_each_entry_once_with_totals_of_all_that_match(author: Author) -> None:
    for n in range(5):
        await author.write(f"Text {n} (a).", title=f"Number {n}", type="rule" if n % 2 else "note", tags=["t"])
    other = await author.write("Other.", title="Another one")
    await knowledge_entries.set_status(
        author.database, EntryKey(author.organization_id, other["entry_id"]), "ready", revision=other["revision"]
    )
    shown, cursor = [], None
    while True:
        page = await author.ok("GET", "", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
        assert page["total_count"] == 6
        assert page["totals"] == {
            "by_status": {"pending": 5, "ready": 1, "error": 0},
            "by_source_type": {"note": 4, "rule": 2},
        }
        shown += page["entries"]
        cursor = page["next_cursor"]
        assert page["has_more"] is (cursor is not None)
        if cursor is None:
            break
    assert [entry["title"] for entry in shown] == ["Another one", *(f"Number {n}" for n in (4, 3, 2, 1, 0))]
    assert {entry["cites_30d"] for entry in shown} == {0}
    for filters, count in (
        ({"q": "TEXT 3 (A)"}, 1),
        ({"q": "number"}, 5),
        ({"q": "."}, 6),
        ({"source_type": "rule"}, 2),
        ({"embedding_status": "ready"}, 1),
        ({"tag": "t", "source_type": "note"}, 3),
        ({"from": shown[0]["created_at"]}, sum(e["created_at"] >= shown[0]["created_at"] for e in shown)),
        ({"to": shown[-1]["created_at"]}, sum(e["created_at"] <= shown[-1]["created_at"] for e in shown)),
        ({"entity_id": "user:a"}, 0),
    ):
        page = await author.ok("GET", "", params=filters)
        assert (page["total_count"], len(page["entries"])) == (count, count), filters


async def test_a_cursor_is_the_time_and_id_of_the_last_entry_and_valid_with_its_own_filters_only(
    author: Author,
) -> None:
    for n in range(3):
        await author.write(f"Text {n}.")
    page = await author.ok("GET", "", params={"limit": 1, "q": "text"})
    cursor, last = page["next_cursor"], page["entries"][0]
    position = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    assert position.split()[1] == last["entry_id"]
    assert datetime.fromisoformat(position.split()[0]) == datetime.fromisoformat(last["created_at"])
    others = {"cursor": cursor, "q": "other"}
    assert await author.refused("GET", "", params=others) == (422, "cursor-of-other-filters")
    assert await author.refused("GET", "", params={"cursor": cursor}) == (422, "cursor-of-other-filters")
    for malformed in ("x", "eA", "ä"):
        assert await author.refused("GET", "", params={"cursor": malformed, "q": "text"}) == (422, "validation-error")


async def test_the_quota_of_entries_names_its_setting(author: Author) -> None:
    entry = await author.write()
    row = await author.database[knowledge_entries.NAME].find_one({"organization_id": author.organization_id})
    assert row is not None
    copies = [row | {"_id": f"{row['_id']}-{n}", "entry_id": f"{entry['entry_id']}-{n}"} for n in range(49)]
    await author.database[knowledge_entries.NAME].insert_many(copies)
    refused = await author.request("POST", "", json={"title": "t", "content": "c"})
    assert (refused.status_code, refused.json()["setting"]) == (409, "KB_MAX_KNOWLEDGE_ENTRIES")
