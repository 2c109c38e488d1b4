"""Computes the expected state from all published events, and lists the differences from the actual state.

It works out by itself what each document must be, from the set of its events; nothing of the projection or of
membership is used. What it shares with the system is how a text is cut and what the vector of a text is.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from kb_contracts import topics
from kb_contracts.documents import (
    DocumentDeleted,
    DocumentEvent,
    MetadataChanged,
    OcrCompleted,
    TagsChanged,
)
from kb_local.model_server.hash_model import vector_of
from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, advance, chunking_steps
from kb_shared.mongo.vector import from_binary
from kb_shared.text import text_normalization
from tests.chaos.quiescence import SLOW_S
from tests.e2e.kafka_log import ConsumedMessage
from tests.e2e.system import CHUNK_SIZE, DIMENSIONS, SystemUnderTest
from tests.waiting import until

_CUT = ChunkingConfig(ChunkerType.RECURSIVE, CHUNK_SIZE, 0, text_normalization.CURRENT)


@dataclass(frozen=True, slots=True)
class OracleFinding:
    what: str
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class ExpectedDocument:
    """Expected state of a document."""

    text: OcrCompleted | None
    tag_ids: frozenset[str]
    metadata: Mapping[str, Any]

    def chunks(self) -> list[Chunk]:
        if self.text is None:
            return []
        chunks = advance(chunking_steps(self.text.text or "", _CUT, embedding_text=self.text.embedding_text))
        assert isinstance(chunks, list)
        return chunks


@dataclass(slots=True)
class Oracle:
    """Records what is published and created; `check` compares it with an idle system."""

    events: defaultdict[str, list[DocumentEvent]] = field(default_factory=lambda: defaultdict(list))
    malformed: list[bytes | None] = field(default_factory=list)
    knowledge_bases: dict[str, frozenset[str]] = field(default_factory=dict)
    """Tags by KB."""
    forgotten_charges: set[str] = field(default_factory=set)
    """Ids of charges that were announced by a database that was lost."""
    outdated_announcements: set[str] = field(default_factory=set)
    """Ids of messages of a database that was lost. Some describe a state that the restored one never had."""

    def record_published(self, *events: DocumentEvent) -> None:
        for event in events:
            self.events[event.document_id].append(event)

    def record_knowledge_base(self, kb_id: str, *tag_ids: str) -> None:
        self.knowledge_bases[kb_id] = frozenset(tag_ids)

    def record_deleted(self, kb_id: str) -> None:
        del self.knowledge_bases[kb_id]

    def expected_members(self, kb_id: str) -> dict[str, ExpectedDocument]:
        """Return the documents that must be in a KB."""
        expected = {document_id: derive_expected(events) for document_id, events in self.events.items()}
        return {
            i: expected_document
            for i, expected_document in expected.items()
            if expected_document.text and expected_document.tag_ids & self.knowledge_bases[kb_id]
        }

    async def check(self, system: SystemUnderTest) -> list[OracleFinding]:
        """Return all differences from the expected state. The system must be idle."""
        outcomes = await system.kafka.read(topics.KB_EVENTS)
        problems: list[OracleFinding] = []
        for kb_id in self.knowledge_bases:
            problems += await self._knowledge_base(system, kb_id)
            problems += await self._announcements(kb_id, outcomes)
        problems += await self._projection(system)
        problems += await self._strays(system)
        problems += await self._jobs(system)
        problems += await self._charges(system)
        letters = await system.kafka.read(topics.DEAD_LETTERS)
        problems += await self._dead_letters(system, letters)
        problems += self._rejections(system, letters, outcomes)
        return problems

    async def _knowledge_base(self, system: SystemUnderTest, kb_id: str) -> list[OracleFinding]:
        members = self.expected_members(kb_id)
        stored = await system.database[f"kb_vectors_{kb_id}"].find().to_list()
        live: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in sorted(stored, key=lambda row: row["chunk_index"]):
            if row["until"] is None:
                live[row["document_id"]].append(row)
        rows = {row["document_id"]: row async for row in system.database.document_index.find({"kb_id": kb_id})}
        problems = [
            OracleFinding(f"is in {kb_id} and must not be", i) for i in (rows.keys() | live.keys()) - members.keys()
        ]
        # A document that leaves a KB leaves it completely, at once.
        left_behind = {row["document_id"] for row in stored} - members.keys() - live.keys()
        problems += [OracleFinding(f"has retired chunks in {kb_id} although it left", i) for i in left_behind]
        problems += [
            OracleFinding(f"has a chunk in {kb_id} that is neither live nor retired", row["document_id"])
            for row in stored
            if row["until"] is not None and ("retired_at" not in row or row["since"] > row["until"])
        ]
        for document_id, expected_document in members.items():
            wrong = _violations_in(expected_document, live[document_id], rows.get(document_id))
            problems += [OracleFinding(f"in {kb_id}: {what}", document_id) for what in wrong]
        counted = [row async for row in system.database.kb_slots.find({"kb_id": kb_id})]
        totals = (sum(row["documents"] for row in counted), sum(row["chunks"] for row in counted))
        if totals != (there := (len(rows), sum(map(len, live.values())))):
            problems.append(OracleFinding(f"{kb_id} counts {totals} documents and chunks where {there} are"))
        return problems

    async def _announcements(self, kb_id: str, outcomes: Sequence[ConsumedMessage]) -> list[OracleFinding]:
        """Check that the last message about each document describes its current state."""
        last: dict[str, Any] = {}
        for message in outcomes:
            announced = read_json(message)
            if announced["data"].get("kb_id") == kb_id and "document_id" in announced["data"]:
                last[announced["data"]["document_id"]] = announced
        problems = []
        members = self.expected_members(kb_id)
        for document_id, expected_document in members.items():
            wanted = ("document.indexed.v1", expected_document.text.revision if expected_document.text else None)
            announced = last.get(document_id, {"type": None, "data": {}})
            if (found := (announced["type"], announced["data"].get("revision"))) != wanted:
                problems.append(OracleFinding(f"was last announced as {found}, not {wanted}", document_id))
        problems += [
            OracleFinding(f"was last announced as {announced['type']}", document_id)
            for document_id, announced in last.items()
            if document_id not in members
            and announced["type"] != "document.removed.v1"
            and announced["id"] not in self.outdated_announcements
        ]
        return problems

    async def _projection(self, system: SystemUnderTest) -> list[OracleFinding]:
        problems = []
        own = {"organization_id": system.organization_id}
        rows = {row["document_id"]: row async for row in system.database.documents.find(own)}
        for document_id, events in self.events.items():
            row, expected_document = rows.pop(document_id, None), derive_expected(events)
            if row is None:
                problems.append(OracleFinding("was never projected", document_id))
            elif _projected(row) != (
                expected_document.text.revision if expected_document.text else None,
                expected_document.tag_ids,
                expected_document.metadata,
            ):
                problems.append(OracleFinding(f"is projected as {_projected(row)}", document_id))
        return problems + [OracleFinding("is projected and was never published", document_id) for document_id in rows]

    async def _strays(self, system: SystemUnderTest) -> list[OracleFinding]:
        database = system.database
        names = await database.list_collection_names(filter={"name": {"$regex": "^kb_vectors_"}})
        others = {"organization_id": {"$ne": system.organization_id}}
        known = {*self.knowledge_bases, *await database["knowledge_bases"].distinct("_id", others)}
        problems = [
            OracleFinding(f"a stray collection {name}")
            for name in {*names} - {f"kb_vectors_{kb_id}" for kb_id in known}
        ]
        for name in ("document_index", "kb_slots", "backfills", "index_jobs"):
            kb_ids = set(await database[name].distinct("kb_id")) - known
            problems += [OracleFinding(f"a row in {name} of {kb_id}, which is no more") for kb_id in kb_ids]
        return problems

    async def _jobs(self, system: SystemUnderTest) -> list[OracleFinding]:
        """Every job is done, but for documents that have a tag of the KB and no text yet."""
        waiting = {
            (kb_id, document_id, "waiting_for_text")
            for document_id, events in self.events.items()
            for expected_document in [derive_expected(events)]
            for kb_id, tag_ids in self.knowledge_bases.items()
            if expected_document.text is None and expected_document.tag_ids & tag_ids
        }
        jobs = {(job["kb_id"], job["document_id"], job["state"]) async for job in system.database.index_jobs.find()}
        return [
            *(
                OracleFinding(f"has a job {state} in {kb_id}", document_id)
                for kb_id, document_id, state in jobs - waiting
            ),
            *(OracleFinding(f"does not wait in {kb_id}", document_id) for kb_id, document_id, _ in waiting - jobs),
        ]

    async def _charges(self, system: SystemUnderTest) -> list[OracleFinding]:
        """Check that each charge equals the number of embeddings stored with it, and was announced.

        Readers may go on to search, and to pay for it: what is charged meanwhile may be announced later.
        """
        charged = await _charged(system)
        await until(partial(_all_is_sent, system), within_s=SLOW_S, what="all charges are announced")
        stored = Counter([row["ledger_id"] async for row in system.database.embedding_cache.find({}, {"ledger_id": 1})])
        # A relay that crashes sends some messages twice.
        bills = [read_json(message)["data"] for message in await system.kafka.read(topics.USAGE)]
        announced = {bill["ledger_id"]: bill["count"] for bill in bills}
        charged_by_now = await _charged(system)
        return [
            OracleFinding(
                f"{count} SPUs charged and {announced.get(ledger_id, 0)} announced for {stored[ledger_id]} embeddings"
            )
            for ledger_id, count in charged.items()
            if not count == stored[ledger_id] == announced.get(ledger_id)
        ] + [
            OracleFinding(
                f"{announced.get(ledger_id, 0)} SPUs billed and {stored[ledger_id]} embeddings stored without a charge"
            )
            for ledger_id in (announced.keys() | stored.keys()) - charged_by_now.keys() - self.forgotten_charges
        ]

    async def _dead_letters(self, system: SystemUnderTest, letters: Sequence[ConsumedMessage]) -> list[OracleFinding]:
        # A crash between the dead letter and the offset writes it twice.
        buried = {await read_body(system, letter) for letter in letters}
        if self.forgotten_charges:
            # Letters of the lost database, whose records were sent again.
            buried.discard(b"")
        return [
            *(
                OracleFinding("a malformed record is not among the dead letters")
                for value in self.malformed
                if value not in buried
            ),
            *(OracleFinding("a good message is among the dead letters") for _ in buried.difference(self.malformed)),
        ]

    def _rejections(
        self, system: SystemUnderTest, letters: Sequence[ConsumedMessage], outcomes: Sequence[ConsumedMessage]
    ) -> list[OracleFinding]:
        """Check that the organization hears of each event that is refused, once, however often its letter was written.

        Of a record whose key names no document of it, it may hear nothing.
        """
        announced: defaultdict[str, set[str]] = defaultdict(set)
        for message in map(read_json, outcomes):
            if message["type"] == "document.rejected.v1" and message["data"].get("dead_letter_id"):
                announced[message["data"]["dead_letter_id"]].add(message["id"])
        own = re.compile(rf"{re.escape(system.organization_id)}/([A-Za-z0-9._-]{{1,128}})".encode())
        events = system.kafka.prefix + topics.DOCUMENT_EVENTS.name
        refused = {letter.headers["x-dead-letter-id"]: letter for letter in letters}
        problems = []
        for letter_id, letter in refused.items():
            times, key = len(announced[letter_id]), own.fullmatch(letter.key or b"")
            must_be_heard = key is not None and letter.headers["x-topic"] == events and not self.forgotten_charges
            if times > 1 or (must_be_heard and times == 0):
                document_id = None if key is None else key[1].decode()
                problems.append(OracleFinding(f"was refused and is announced {times} times", document_id))
        return problems


async def read_body(system: SystemUnderTest, letter: ConsumedMessage) -> bytes | None:
    """Return the original bytes of a dead letter; large ones are in MongoDB."""
    if (reference := letter.headers.get("x-body-ref")) is None:
        return letter.value
    pieces = await system.database.dead_letter_bodies.find({"letter_id": reference}).sort("_id").to_list()
    return b"".join(piece["data"] for piece in pieces)


def derive_expected(events: Sequence[DocumentEvent]) -> ExpectedDocument:
    """Return the expected state of a document after these events; revisions must be distinct."""
    deleted = max((event.revision for event in events if isinstance(event, DocumentDeleted)), default=None)
    newest_first = sorted(events, key=lambda event: event.revision, reverse=True)
    standing = [event for event in newest_first if deleted is None or event.revision > deleted]
    tagging = [event for event in standing if isinstance(event, OcrCompleted | TagsChanged)]
    describing = [
        event for event in standing if isinstance(event, OcrCompleted | MetadataChanged) and event.metadata is not None
    ]
    return ExpectedDocument(
        text=next((event for event in standing if isinstance(event, OcrCompleted)), None),
        tag_ids=frozenset(tagging[0].tag_ids if tagging else ()),
        metadata=dict(describing[0].metadata or {}) if describing else {},
    )


def _violations_in(
    expected_document: ExpectedDocument, live: Sequence[dict[str, Any]], row: dict[str, Any] | None
) -> Iterator[str]:
    assert expected_document.text is not None
    chunks = expected_document.chunks()
    if [chunk["chunk_index"] for chunk in live] != list(range(len(chunks))):
        yield f"chunks {[chunk['chunk_index'] for chunk in live]} instead of 0 to {len(chunks) - 1}"
        return
    if row is None:
        yield "has chunks but no row"
        return
    if (row["chunk_count"], row["text_revision"]) != (len(chunks), expected_document.text.revision):
        yield f"the row says {row['chunk_count']} chunks of revision {row['text_revision']}"
    for chunk, wanted in zip(live, chunks, strict=True):
        yield from _differences_of_texts(chunk, wanted)
        snapshot = (chunk["document_name"], frozenset(chunk["tag_ids"]), chunk["metadata_snapshot"])
        if snapshot != (expected_document.text.document_name, expected_document.tag_ids, expected_document.metadata):
            yield f"chunk {wanted.chunk_index} carries {snapshot}"
        if chunk["since"] > row["version"]:
            yield f"chunk {wanted.chunk_index} is of a version to come"
    doubles = [name for name, times in Counter(chunk["_id"] for chunk in live).items() if times > 1]
    if doubles or any(one["start"] >= other["start"] for one, other in pairwise(live)):
        yield "chunks are not in the order of the text, each once"


def _differences_of_texts(chunk: Mapping[str, Any], wanted: Chunk) -> Iterator[str]:
    if (chunk["chunk_text"], chunk["chunk_hash"], chunk["start"], chunk["end"]) != (
        wanted.text,
        wanted.chunk_hash,
        wanted.start,
        wanted.end,
    ):
        yield f"chunk {wanted.chunk_index} is not of the newest text"
    if chunk.get("embedding_text") != wanted.embedding_text:
        yield f"chunk {wanted.chunk_index} is found by the words of another embedding text"
    if not np.array_equal(from_binary(chunk["embedding"]), vector_of(wanted.embedded_text, dimensions=DIMENSIONS)):
        yield f"chunk {wanted.chunk_index} has the vector of another text"


async def _charged(system: SystemUnderTest) -> dict[str, int]:
    return {row["_id"]: row["count"] async for row in system.database.spu_ledger.find()}


async def _all_is_sent(system: SystemUnderTest) -> bool:
    return not await system.database.outbox.count_documents({"sent_at": None})


def _projected(row: Mapping[str, Any]) -> tuple[int | None, frozenset[str], Mapping[str, Any]]:
    return row["text_revision"], frozenset(row["tag_ids"]), row["metadata"]


def read_json(message: ConsumedMessage) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(message.value or b"{}")
    return content
