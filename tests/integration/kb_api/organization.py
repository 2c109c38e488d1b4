"""What a test does as a member of an organization, and what the other services would do meanwhile."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from kb_api.bootstrap import KbApi
from kb_contracts.commands import Reason, SyncDocument
from kb_shared.mongo import backfills, document_index, documents, index_jobs, kb_slots, knowledge_bases, tags
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.document_index import IndexedDocument, IndexingWork
from kb_shared.mongo.documents import AppliedEvent, Document, TagsFacet, TextFacet
from kb_shared.mongo.index_jobs import IndexJob, SyncRequest
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.waiting import until

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
INDEXER = "an indexer"
LEASE = timedelta(hours=1)
"""Its work does not expire, however slow the machine."""


class FenceClosed(Exception):
    """A KB that is deleted, has other tags by now, or is about to."""


@dataclass(frozen=True, slots=True)
class OrganizationClient:
    organization_id: str
    key: str
    http: httpx.AsyncClient
    api: KbApi

    @property
    def database(self) -> Database:
        return self.api.database

    @property
    def base(self) -> str:
        return f"/v0/orgs/{self.organization_id}"

    async def request(self, method: str, path: str, *, json: Any = None, **params: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        return await self.http.request(
            method, self.base + path, headers=headers, params=params, **({} if json is None else {"json": json})
        )

    async def ok(self, method: str, path: str, *, json: Any = None, **params: Any) -> dict[str, Any]:
        response = await self.request(method, path, json=json, **params)
        assert response.is_success, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def refused(self, method: str, path: str, *, json: Any = None, **params: Any) -> tuple[int, str]:
        """Status and type of the problem."""
        response = await self.request(method, path, json=json, **params)
        assert response.headers["content-type"] == "application/problem+json", response.text
        return response.status_code, response.json()["type"]

    async def create(self, **fields: Any) -> dict[str, Any]:
        return await self.ok("POST", "/knowledge-bases", json={"name": "A knowledge base", **fields})

    async def stored(self, kb_id: str) -> KnowledgeBase:
        kb = await knowledge_bases.find(self.database, KnowledgeBaseKey(self.organization_id, kb_id))
        assert kb is not None
        return kb

    async def until_status(self, kb_id: str, status: str) -> dict[str, Any]:
        kb: dict[str, Any] = {}

        async def is_so() -> bool:
            kb.update(await self.ok("GET", f"/knowledge-bases/{kb_id}"))
            return bool(kb["status"] == status)

        await until(is_so, what=f"the status {status}")
        return kb

    async def tag(self, *tag_ids: str) -> None:
        await tags.register(self.database, self.organization_id, tag_ids=tag_ids)

    async def finish_scans(self) -> None:
        """As the indexer does when it has asked for all documents."""
        rows = self.database[backfills.NAME].find({"organization_id": self.organization_id, "state": "running"})
        mine = [row["_id"] async for row in rows]
        others = [row["_id"] async for row in self.database[backfills.NAME].find({"_id": {"$nin": mine}}, {"_id": 1})]
        for _ in mine:
            scan = await backfills.claim(self.database, owner=INDEXER, lease=LEASE, but=others)
            assert scan is not None
            await backfills.finish(self.database, scan, owner=INDEXER)

    async def open_job(self, kb_id: str, document_id: str) -> SyncDocument:
        command = SyncDocument(
            organization_id=self.organization_id, kb_id=kb_id, document_id=document_id, reason=Reason.BACKFILL
        )
        await index_jobs.request(self.database, [SyncRequest([command], TRACE, datetime.now(UTC))])
        return command

    async def claim(self, command: SyncDocument) -> IndexJob:
        job = (await index_jobs.claim_all(self.database, [command], owner=INDEXER, lease=LEASE)).get(command)
        assert job is not None
        return job

    async def running_job(self, kb_id: str, document_id: str) -> IndexJob:
        return await self.claim(await self.open_job(kb_id, document_id))

    async def waiting_job(self, kb_id: str, document_id: str) -> None:
        await index_jobs.wait_for_text(self.database, await self.running_job(kb_id, document_id))

    async def failed_job(self, kb_id: str, document_id: str, *, error_type: str, error_message: str) -> None:
        job = await self.running_job(kb_id, document_id)

        async def fail(session: MongoSession) -> bool:
            return await index_jobs.fail(
                self.database, job, session, error_type=error_type, error_message=error_message
            )

        assert await in_transaction(self.database, fail)

    async def project(
        self, document_id: str, *, name: str, tag_ids: tuple[str, ...] = (), length: int | None = None
    ) -> None:
        """As fan-out does when a document's text has come."""
        text = TextFacet(revision=1, digest="d", text_id="t", name=name, upload_date=datetime.now(UTC), length=length)
        document = Document(
            self.organization_id, document_id, text=text, tags=TagsFacet(revision=1, digest="d", tag_ids=tag_ids)
        )
        event = AppliedEvent("e", "document.ocr_completed.v1", 1, TRACE, datetime.now(UTC))
        assert await documents.write_all(self.database, [documents.DocumentChange(document, event)])

    async def index(
        self,
        kb_id: str,
        document_id: str,
        *,
        name: str,
        chunks: int,
        work: IndexingWork | None = None,
        text_id: str = "c",
    ) -> None:
        """As a swap does, but for the chunks themselves. Raises FenceClosed if the slot may not be written."""
        kb = await self.stored(kb_id)

        async def swap(session: MongoSession) -> None:
            version, _ = await document_index.begin_swap(
                self.database, session, MembershipKey(self.organization_id, kb_id, document_id)
            )
            passed = await kb_slots.fence_knowledge_base(
                self.database,
                session,
                MembershipKey(self.organization_id, kb_id, document_id),
                tags_version=kb.tags_version,
                documents=1,
                chunks=chunks,
            )
            if not passed:
                raise FenceClosed
            row = IndexedDocument(
                organization_id=self.organization_id,
                kb_id=kb_id,
                document_id=document_id,
                version=version,
                chunk_count=chunks,
                text_revision=1,
                content_digest=text_id,
                chunk_metadata_digest="s",
                config_hash=kb.config_hash,
                document_name=name,
                work=work,
            )
            await document_index.finish_swap(self.database, session, row)

        await in_transaction(self.database, swap)
