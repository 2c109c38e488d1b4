"""Sources of one organization, and a runner that carries out their runs in this process."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from kb_knowledge.runner.hold_run import LEASE
from kb_knowledge.runner.open_reader import ReaderSettings, SourceReaders
from kb_knowledge.runner.run_source import SourceRunLimits, SourceRunner
from kb_knowledge.sources.guarded_http import FetchLimits, GuardedHttp
from kb_knowledge.sources.parse_item import ItemParser
from kb_knowledge.sources.source_items import ContentRefused, SourceItem
from kb_knowledge.store import knowledge_sources, source_runs
from kb_knowledge.store.knowledge_sources import KnowledgeSource, SourceKind
from kb_knowledge.store.source_runs import RunTrigger, SourceRun
from kb_shared.mongo.database import Database
from kb_shared.mongo.stored_time import now
from kb_shared.secrets.key_ring import KeyRing

KEY_RING = KeyRing({"k": bytes(32)})


class Killed(Exception):
    """Ends a runner at a failpoint, without a chance to tidy up."""


@dataclass
class Entries:
    """Stores entries in memory, as the service does: by key, and without an event for the same content."""

    items: dict[str, SourceItem] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def entry_id_of(self, key: str) -> str:
        return f"entry of {key}"

    async def check(self, parts: Sequence[SourceItem]) -> None:
        if any("BEGIN PRIVATE KEY" in part.text for part in parts):
            raise ContentRefused("private-key")

    async def write(self, item: SourceItem) -> str:
        if self.items.get(item.key) != item:
            self.events.append(item.key)
        self.items[item.key] = item
        return self.entry_id_of(item.key)

    async def exists(self, entry_id: str) -> bool:
        return entry_id.removeprefix("entry of ") in self.items

    async def delete(self, entry_id: str) -> None:
        key = entry_id.removeprefix("entry of ")
        if self.items.pop(key, None):
            self.deleted.append(key)


@dataclass
class Sources:
    """Sources with a runner. What the process of a runner keeps in memory is lost with each `carry_out`."""

    database: Database
    http: GuardedHttp
    parser: ItemParser
    organization_id: str = field(default_factory=lambda: f"org-{uuid4().hex[:8]}")
    entries: Entries = field(default_factory=Entries)
    limits: SourceRunLimits = field(default_factory=lambda: SourceRunLimits(max_s=600, max_bytes=100_000_000))
    page_limits: FetchLimits = field(default_factory=lambda: FetchLimits(max_bytes=1_000_000, within_s=60))

    async def add(self, kind: SourceKind, config: Mapping[str, Any], **fields: Any) -> KnowledgeSource:
        moment = now()
        source = KnowledgeSource(
            source_id=knowledge_sources.new_source_id(),
            organization_id=self.organization_id,
            label="A source",
            kind=kind,
            config=config,
            cron_expression=None,
            enabled=True,
            created_at=moment,
            created_by="key",
            updated_at=moment,
            updated_by="key",
        )
        source = replace(source, **fields)
        await knowledge_sources.insert(self.database, None, source)
        return source

    async def crawl(self, url: str, *, depth: int = 1, **config: Any) -> KnowledgeSource:
        return await self.add(SourceKind.URL_CRAWL, {"url": url, "depth": depth, **config})

    async def request(self, source: KnowledgeSource, trigger: RunTrigger = RunTrigger.MANUAL) -> SourceRun:
        return await source_runs.request(self.database, None, source.key, trigger=trigger, requested_by="key")

    async def run(self, source: KnowledgeSource, trigger: RunTrigger = RunTrigger.MANUAL) -> SourceRun:
        """Request a run and carry it out to its end."""
        return await self.carry_out(await self.request(source, trigger))

    async def carry_out(self, run: SourceRun) -> SourceRun:
        owner = uuid4().hex
        claimed = await source_runs.claim(self.database, owner=owner, lease=LEASE)
        assert claimed is not None
        assert claimed.run_id == run.run_id
        await self.runner(owner).run(claimed)
        return await self.find(run)

    def runner(self, owner: str) -> SourceRunner:
        settings = ReaderSettings(allow_private=True, crawl_delay_s=0, max_items=50, page_limits=self.page_limits)
        readers = SourceReaders(self.database, self.http, KEY_RING, settings, lambda: nullcontext(self.parser))
        return SourceRunner(
            self.database,
            owner=owner,
            limits=self.limits,
            open_reader=readers.open,
            open_entries=lambda _source: self.entries,
        )

    async def find(self, run: SourceRun) -> SourceRun:
        found = await source_runs.find(self.database, run.key)
        assert found is not None
        return found

    async def source(self, source: KnowledgeSource) -> KnowledgeSource:
        return await knowledge_sources.get(self.database, source.key)

    async def let_lease_pass(self, run: SourceRun) -> None:
        past = datetime.now(UTC) - timedelta(seconds=1)
        await self.database[source_runs.NAME].update_one(run.key.to_query(), {"$set": {"lease_until": past}})
