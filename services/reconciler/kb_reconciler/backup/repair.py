"""Compares a restored database, forecasts what repairs cost, and makes one full pass of the reconciler.

A pass queues jobs in `index_jobs`, from which the indexers of the deployment publish them: no broker is needed here.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kb_contracts import topics
from kb_contracts.commands import SyncDocument
from kb_reconciler import state as reconciler_state
from kb_reconciler.drift.bad_vector import BAD_VECTOR
from kb_reconciler.drift.incomplete import INCOMPLETE
from kb_reconciler.drift.kinds import Comparison, RepairTools
from kb_reconciler.drift.missing_embedding import MISSING_EMBEDDING
from kb_reconciler.drift.orphan_vectors import ORPHAN_VECTORS
from kb_reconciler.drift.stale import STALE
from kb_reconciler.drift.stale_snapshot import STALE_SNAPSHOT
from kb_reconciler.passes import Passes, PassReport
from kb_reconciler.reconcile import KnowledgeBaseReconciler, RepairRules
from kb_reconciler.slices import split
from kb_shared.kafka.producer import Producer
from kb_shared.kafka_connection.connection import DEFAULT_BOOTSTRAP_SERVERS, KafkaConnection
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import (
    backfills,
    document_index,
    document_texts,
    documents,
    index_jobs,
    knowledge_bases,
    outbox,
    reconcile_plans,
)
from kb_shared.mongo.database import Database, long_commands
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanState

WITHOUT_EMBEDDING: Final = frozenset(kind.name for kind in (MISSING_EMBEDDING, STALE, STALE_SNAPSHOT, ORPHAN_VECTORS))
"""Kinds of drift whose repair needs no vector."""
WITH_THE_SAME_TEXT: Final = frozenset(kind.name for kind in (INCOMPLETE, BAD_VECTOR))
"""Kinds of drift whose repair needs at most as many vectors as the document has chunks."""


class QueuedIndexRequests(IndexRequests):
    """Requests that stay in the queue of `index_jobs` until an indexer publishes them."""

    def __init__(self, database: Database) -> None:
        # It is never started: nothing is published.
        producer = Producer(KafkaConnection(DEFAULT_BOOTSTRAP_SERVERS), idempotence=False)
        super().__init__(database, producer, topic_prefix="", source="/kb/restore")

    async def request(self, commands: Collection[SyncDocument], **options: Any) -> None:
        await super().request(commands, **{**options, "queued": True})


async def release_leases(database: Database) -> int:
    """Let other processes take the work of those that the backup was made beside; return the number of open jobs."""
    no_lease = {"lease_owner": None, "lease_until": None}
    with long_commands():
        await database[index_jobs.NAME].update_many(
            {"state": index_jobs.IndexJobState.RUNNING},
            {"$set": {"state": index_jobs.IndexJobState.PENDING, **no_lease}},
        )
        await database[index_jobs.NAME].update_many({"lease_owner": {"$ne": None}}, {"$set": no_lease})
        await database[backfills.NAME].update_many({"lease_owner": {"$ne": None}}, {"$set": no_lease})
        # Some may have been handled after the moment of the backup, and no upstream service publishes them again.
        await outbox.send_again(database, topic=topics.KNOWLEDGE_DOCUMENT_EVENTS.name)
    # Their commands were published to another broker, or long ago.
    await index_jobs.make_all_due(database)
    return await database[index_jobs.NAME].count_documents({})


@dataclass(slots=True)
class RepairForecast:
    """Drift of a restored database, and the greatest number of SPUs that its repair takes."""

    found: Counter[str] = field(default_factory=Counter)
    """Numbers of documents, or of KBs, by kind of drift."""
    spus_at_most: int = 0
    not_active: list[str] = field(default_factory=list)
    """KBs that are not compared, because they are not active."""


async def forecast_repairs(database: Database) -> RepairForecast:
    """Compare all KBs, and change nothing."""
    forecast = RepairForecast()
    tools = RepairTools(database, QueuedIndexRequests(database))
    for kb in await knowledge_bases.find_existing(database):
        if kb.status is not Status.ACTIVE:
            forecast.not_active.append(kb.kb_id)
            continue

        async def count(found: Collection[PlannedRepair], kb: KnowledgeBase = kb) -> None:
            forecast.spus_at_most += await _count_spus(database, kb, found)

        reconciler = KnowledgeBaseReconciler(
            tools,
            kb,
            unchanged_since=datetime.now(UTC),
            comparisons=frozenset(Comparison),
            whole=True,
            rules=RepairRules(dry_run=True),
            on_found=count,
        )
        report = await reconciler.run(split(database, kb))
        forecast.found += report.found
    return forecast


async def _count_spus(database: Database, kb: KnowledgeBase, found: Collection[PlannedRepair]) -> int:
    """Return the greatest number of chunks that the repairs of documents may have to embed."""
    same_text = [each.document_id for each in found if each.document_id and each.kind in WITH_THE_SAME_TEXT]
    other_text = [
        each.document_id
        for each in found
        if each.document_id and each.kind not in WITH_THE_SAME_TEXT | WITHOUT_EMBEDDING
    ]
    return await _count_stored_chunks(database, kb, same_text) + await _count_possible_chunks(database, kb, other_text)


async def _count_stored_chunks(database: Database, kb: KnowledgeBase, document_ids: Sequence[str]) -> int:
    row_ids = [document_index.row_id(kb_id=kb.kb_id, document_id=each) for each in document_ids]
    query = {"_id": {"$in": row_ids}, "organization_id": kb.organization_id}
    rows = database[document_index.NAME].find(query, {"chunk_count": 1})
    return sum([int(row["chunk_count"]) async for row in rows])


async def _count_possible_chunks(database: Database, kb: KnowledgeBase, document_ids: Sequence[str]) -> int:
    """Estimate from above: a token has at least one byte, in most languages three or four."""
    row_ids = [documents.row_id(DocumentKey(kb.organization_id, each)) for each in document_ids]
    mine = {"organization_id": kb.organization_id}
    rows = database[documents.NAME].find({"_id": {"$in": row_ids}, **mine}, {"text_id": 1})
    text_ids = [row["text_id"] async for row in rows if row.get("text_id") is not None]
    texts = database[document_texts.NAME].find({"_id": {"$in": text_ids}, **mine}, {"bytes": 1})
    new_tokens = max(1, kb.chunk_size - kb.chunk_overlap)
    sizes = [int(row.get("bytes", 0)) async for row in texts]
    return sum(min(kb.max_chunks_per_document, math.ceil(size / new_tokens)) for size in sizes)


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """Outcome of the pass after a restore."""

    report: PassReport
    plan_ids: Sequence[str]
    """Ids of the plans with the removals that the brake has stopped."""


async def make_pass(database: Database) -> RepairOutcome:
    """Make one full pass with the brake on, and let the reconciler of the deployment continue where it ends."""
    passes = Passes(RepairTools(database, QueuedIndexRequests(database)), grace=timedelta(0))
    state = await reconciler_state.begin(database)
    began = datetime.now(UTC)
    report = await passes.full(_stay_leader)
    await reconciler_state.save(database, state, compared_until=began, unfinished=report.stored_unfinished)
    stopped = database[reconcile_plans.NAME].find({"state": PlanState.STOPPED}, {"_id": 1})
    return RepairOutcome(report, [row["_id"] async for row in stopped])


async def _stay_leader() -> None:
    """Continue: no other reconciler works on a database that is being restored."""
