"""A deployment to back up: two organizations with KBs, texts in GridFS, keys; and comparisons of databases."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import bson

from kb_reconciler.backup.backup import back_up
from kb_reconciler.backup.manifest import Manifest
from kb_reconciler.backup.progress import SilentProgress
from kb_reconciler.backup.scope import LEFT_OUT, BackupScope
from kb_shared.mongo import document_texts, knowledge_bases, leases, rate_limits
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.support import Replica, Tenant, text_of

TEXTS: Final = {"d1": text_of(1, 2, 3), "d2": text_of(4, 5, 6), "d3": text_of(7, 8)}
LARGE: Final = "A large text in GridFS. " * 50_000
WHOLE: Final = BackupScope()


@dataclass(frozen=True, slots=True)
class SourceDeployment:
    """Deployment with an organization of two KBs, and another organization with one."""

    database: Database
    tenant: Tenant
    kb: KnowledgeBase
    sibling: KnowledgeBase
    stranger: Tenant
    strange_kb: KnowledgeBase


async def fill(database: Database, indexer: Replica) -> SourceDeployment:
    tenant, stranger = Tenant(database, "org-mine"), Tenant(database, "org-mine-too")
    kb, sibling = await tenant.create_kb("a"), await tenant.create_kb("b")
    strange_kb = await stranger.create_kb("a")
    await indexer.publish(*(tenant.ocr(document_id, text) for document_id, text in TEXTS.items()))
    await indexer.publish(tenant.ocr("other", text_of(20, 21), tags=("b",)))
    for each in (tenant, stranger):
        text_ref = await document_texts.put(database, DocumentKey(each.organization_id, "large"), LARGE)
        await indexer.publish(each.ocr("large", None, text_ref=text_ref, tags=("c",)))
    await indexer.publish(stranger.ocr("theirs", text_of(30, 31)))
    await indexer.work()
    for each in (tenant, stranger):
        await _add_rows(database, each.organization_id)
    current = await knowledge_bases.get(database, kb.key)
    return SourceDeployment(database, tenant, current, sibling, stranger, strange_kb)


async def _add_rows(database: Database, organization_id: str) -> None:
    """Add rows of collections that indexing does not write."""
    of_it: Row = {"organization_id": organization_id, "created_at": datetime.now(UTC), "text": f"of {organization_id}"}
    names = ("api_keys", "prompts", "agents", "threads", "runs", "query_log", "dead_letters", "dead_letter_bodies")
    for name in names:
        await database[name].insert_one({"_id": f"{name}-{organization_id}", **of_it})
    await database["llm_providers"].insert_one({"_id": f"{organization_id}/openai", "key_id": "k1", **of_it})
    await database["document_revisions"].insert_one({"_id": f"{organization_id}/d1", **of_it, "revision": 1})
    await database["organizations"].insert_one({"_id": organization_id, "writes": 3})
    await database[leases.NAME].insert_one(
        {"_id": f"lease-{organization_id}", "owner": "x", "until": datetime.now(UTC)}
    )
    await database[rate_limits.NAME].insert_one({"_id": f"{organization_id}/m", **of_it})


async def back_up_whole(database: Database, folder: Path) -> Manifest:
    return await back_up(database, folder, WHOLE, progress=SilentProgress())


async def digests(database: Database) -> dict[str, str]:
    """Return a digest of the rows of each collection that a backup has; one without rows is absent."""
    found = {}
    for name in await database.list_collection_names():
        rows = [bson.encode(row) async for row in database[name].find().sort("_id")]
        if rows and name not in LEFT_OUT:
            found[name] = hashlib.sha256(b"".join(rows)).hexdigest()
    return found


async def index_specs(database: Database) -> dict[str, Any]:
    """Return the indexes of each collection that a backup has."""
    names = [name for name in await database.list_collection_names() if name not in LEFT_OUT]
    return {name: await database[name].index_information() for name in names}


async def values_in(database: Database) -> str:
    """Return everything in a database as one text."""
    names = await database.list_collection_names()
    return "".join([f"{name}{row}" for name in sorted(names) async for row in database[name].find()])
