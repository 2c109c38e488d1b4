"""Every reader accepts rows that lack a field which a newer version of the code has added."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from kb_api import document_revisions
from kb_api.routes.documents_in_kb import chunk_view
from kb_search.runs.run_response import to_summary
from kb_search.store import runs
from kb_search.store.keys import RunKey
from kb_shared.mongo import budgets, document_texts, outbox, tags, vectors
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.document_texts import StoredText
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.tags import Tag
from kb_shared.mongo.vectors import Chunks, ListedChunk

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
async def database(mongo_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[Database]:
    name = f"test_rows_{uuid4().hex[:12]}"
    yield mongo_client[name]
    await mongo_client.drop_database(name)


async def test_a_message_without_a_trace_is_published(database: Database) -> None:
    row = {"topic": "t", "key": "k", "value": b"v", "ordering": "o", "seq": 0, "bucket": 0, "sent_at": None}
    await database[outbox.NAME].insert_one(row)
    [message] = await outbox.find_unsent(database, [0], limit=10)
    assert (message.key, message.headers, message.traceparent) == (b"k", None, "")


async def test_an_unsendable_message_without_a_trace_and_a_document_is_listed(database: Database) -> None:
    row = {
        "_id": ObjectId(),
        "organization_id": "acme",
        "topic": "t",
        "reason": "too-large",
        "size_bytes": 1,
        "created_at": NOW,
        "unsendable_at": NOW,
    }
    await database[outbox.NAME].insert_one({**row, "sent_at": False})
    [message], count = await outbox.find_unsendable_page(database, ["acme"], topic=None, reason=None, skip=0, limit=10)
    assert (message.message_id, message.document_id, message.traceparent, count) == (str(row["_id"]), None, "", 1)


async def test_a_tag_without_a_name_is_listed(database: Database) -> None:
    await database[tags.NAME].insert_one({"organization_id": "acme", "tag_id": "hr", "deleted": False})
    assert await tags.find_page(database, "acme", skip=0, limit=10) == ([Tag("hr", None)], 1)


async def test_a_budget_of_spus_alone_is_read(database: Database) -> None:
    await database[budgets.NAME].insert_one({"_id": "acme", "organization_id": "acme", "hard": 7, "reservations": []})
    budget = await budgets.find(database, "acme")
    assert budget is not None
    assert (budget.limits, budget.used, budget.reserved_nano_usd) == (BudgetLimits(hard=7), 0, 0)


async def test_a_text_without_pages_is_read(database: Database) -> None:
    await database[document_texts.NAME].insert_one({"_id": "a", "organization_id": "acme", "text": "x"})
    assert await document_texts.find_all(database, "acme", ["a"]) == {"a": StoredText("x", ())}


async def test_a_document_without_accepted_revisions_is_read(database: Database) -> None:
    key = DocumentKey("acme", "d")
    row = {"_id": "acme/d", "organization_id": "acme", "document_id": "d"}
    await database[document_revisions.NAME].insert_one(row)
    assert await document_revisions.find(database, key) is None


async def test_a_citation_without_a_relevance_is_shown(database: Database) -> None:
    citation = {"number": 1, "citation": "d:1:0", "kb_id": "k", "document_id": "d", "source": "a.pdf", "chunk_index": 0}
    row = {
        "_id": "r",
        "organization_id": "acme",
        "thread_id": None,
        "prompt_id": None,
        "agent_id": None,
        "key_id": "key",
        "model": "m",
        "status": "completed",
        "question": [],
        "started_at": NOW,
        "lost_after": NOW,
        "citations": [citation],
    }
    await database[runs.NAME].insert_one(row)
    [shown] = to_summary(await runs.get(database, RunKey("acme", "r"))).citations
    assert (shown.source, shown.page_start, shown.relevance) == ("a.pdf", None, None)


async def test_a_chunk_without_pages_headings_and_a_type_is_listed(database: Database) -> None:
    row = {
        "_id": "d:1:0",
        "organization_id": "acme",
        "kb_id": "k",
        "document_id": "d",
        "upload_date": NOW,
        "indexed_at": NOW,
        "chunk_index": 0,
        "chunk_text": "x",
        "token_count": 1,
        "start": 0,
        "end": 1,
        "until": None,
    }
    chunks = Chunks(database["kb_vectors_k"], "acme", "k")
    await chunks.collection.insert_one(row)

    async def read(session: MongoSession) -> list[ListedChunk]:
        return (await vectors.find_page_of_document(chunks, session, "d", skip=0, limit=10))[0]

    [chunk] = await in_transaction(database, read)
    shown = chunk_view(chunk)
    assert (shown.content, shown.page_start, shown.heading_path, shown.chunk_type) == ("x", None, [], "text")
