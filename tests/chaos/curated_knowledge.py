"""Writes entries and runs a source as people do, and checks what has become of both."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from kb_contracts import topics
from kb_contracts.cloudevents import decode
from kb_contracts.documents import DOCUMENT_EVENTS, DocumentDeleted, DocumentEvent, OcrCompleted
from kb_contracts.knowledge.entities import ANY_ENTITY
from kb_contracts.reserved_ids import KNOWLEDGE_TAG, document_id_of
from tests.chaos.availability import AvailabilityRecorder
from tests.chaos.caller import RecordingCaller
from tests.chaos.document_reader import DocumentReader
from tests.chaos.knowledge_plan import (
    PAGES,
    WATCHED_ENTRY,
    ChangeSite,
    DeleteEntry,
    EntryChange,
    ReviseWatchedEntry,
    RunSource,
    SourceChange,
    WriteEntry,
)
from tests.chaos.oracle import Oracle, OracleFinding
from tests.chaos.quiescence import SLOW_S
from tests.chaos.revisions import Revisions
from tests.chaos.workload import UPLOADED
from tests.e2e.system import CHUNK_SIZE, MODEL, SystemUnderTest
from tests.integration.knowledge.sources.web_site import WebSite, serve_site
from tests.waiting import until

SETTINGS: Final = {
    # The knowledge base of entries has chunks as the oracle cuts them.
    "KB_EMBEDDING_MODEL": MODEL,
    "KB_DEFAULT_CHUNK_SIZE": str(CHUNK_SIZE),
    "KB_DEFAULT_CHUNK_OVERLAP": "0",
    # The web site is on this machine.
    "KB_ALLOW_PRIVATE_ADDRESSES": "true",
    "KB_CRAWL_DELAY_S": "0",
}


@dataclass(slots=True)
class CuratedKnowledge:
    """Entries of one organization and a source that reads a web site."""

    system: SystemUnderTest
    caller: RecordingCaller
    oracle: Oracle
    site: WebSite
    reader: DocumentReader
    source_id: str
    _entries: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fields that were written last, by entry; of deleted ones there are none."""
    _revisions: dict[str, int] = field(default_factory=dict)

    async def apply(self, change: EntryChange | SourceChange) -> None:
        match change:
            case WriteEntry():
                await self._write(
                    change.entry_id, change.paragraphs, tags=change.tags, embedding_text=change.embedding_text
                )
            case DeleteEntry():
                await self._delete(change.entry_id)
            case ReviseWatchedEntry():
                await self._write(WATCHED_ENTRY, self.reader.revisions.step())
            case ChangeSite():
                self.site.texts[change.page] = change.text
                (self.site.gone.add if change.is_gone else self.site.gone.discard)(change.page)
            case RunSource():
                # A source that runs already refuses, which is an answer like any other here.
                await self.caller.ask_once("POST", f"/knowledge-sources/{self.source_id}/run")

    async def write_first_text(self) -> None:
        """Write the entry that is watched, with which the knowledge base of entries begins."""
        await self._write(WATCHED_ENTRY, self.reader.revisions.newest)
        listed = (await self.system.http.get("/knowledge-bases")).raise_for_status().json()
        [kb_id] = [kb["kb_id"] for kb in listed["knowledge_bases"] if kb["kind"] == "knowledge"]
        self.reader.kb_id = kb_id
        self.oracle.record_knowledge_base(kb_id, KNOWLEDGE_TAG)

    async def read_site(self) -> None:
        """Wait for the runs of the source, and let one more read the web site as it is."""
        await self._until_no_run_is_open()
        await self.caller.change("POST", f"/knowledge-sources/{self.source_id}/run")
        await self._until_no_run_is_open()

    async def until_ready(self, system: SystemUnderTest) -> None:
        """Wait until the service has heard that all entries are searchable as they are."""
        await until(lambda: _all_are_ready(system), within_s=SLOW_S, what="all entries are ready")

    async def record_fetched(self, system: SystemUnderTest) -> None:
        """Let the oracle know the events about what the source has fetched, which no caller sees."""
        written = {document_id_of(entry_id) for entry_id in self._revisions}
        for message in await system.kafka.read(topics.KNOWLEDGE_DOCUMENT_EVENTS):
            _, event = decode(message.value, DOCUMENT_EVENTS)
            assert isinstance(event, DocumentEvent)
            if event.document_id not in written:
                self.oracle.record_published(event)

    async def find_problems(self, system: SystemUnderTest, *, kills: int) -> list[OracleFinding]:
        """Compare entries with what was written, and those of the source with the web site.

        Args:
            system: is idle.
            kills: how often a runner has ended in the middle of its work, at most.
        """
        rows = await system.database.knowledge_entries.find({"organization_id": system.organization_id}).to_list()
        written = {row["entry_id"]: _fields(row) for row in rows if row["source_id"] is None}
        fetched = [(row["source_key"], row["content"]) for row in rows if row["source_id"] is not None]
        runs = await system.database.source_runs.find({"source_id": self.source_id}).to_list()
        problems = [*_differences("entry", written, self._entries), *_differences("page", dict(fetched), self._pages())]
        if len(fetched) != len(dict(fetched)):
            problems.append(OracleFinding("a page has two entries"))
        if (last := max(runs, key=lambda run: run["_id"]))["status"] != "ok":
            problems.append(OracleFinding(f"the last run of the source ended as {last['status']}: {last['error']}"))
        problems += [
            OracleFinding(f"{path} was fetched {times} times in {len(runs)} runs with {kills} kills")
            for path, times in self.site.requested().items()
            if times > len(runs) + kills
        ]
        return problems

    async def _write(
        self,
        entry_id: str,
        paragraphs: Sequence[str],
        *,
        tags: Sequence[str] = (),
        embedding_text: str | None = None,
    ) -> None:
        written: dict[str, Any] = {
            "title": f"About {entry_id}",
            "content": "\n\n".join(paragraphs),
            "tags": list(tags),
            "embedding_text": embedding_text,
        }
        answer = await self.caller.write_entry(entry_id, written)
        self._entries[entry_id] = written
        self._revisions[entry_id] = answer["revision"]
        self.oracle.record_published(
            OcrCompleted(
                organization_id=self.system.organization_id,
                document_id=document_id_of(entry_id),
                revision=answer["revision"],
                document_name=written["title"],
                tag_ids=[*tags, KNOWLEDGE_TAG],
                upload_date=UPLOADED,
                text=written["content"],
                metadata={"type": "note", "entity_id": ANY_ENTITY},
                embedding_text=embedding_text,
            )
        )

    async def _delete(self, entry_id: str) -> None:
        await self.caller.change("DELETE", f"/knowledge-entries/{entry_id}")
        del self._entries[entry_id]
        # What is written under this id later has a greater revision, whatever that of the deletion is.
        self.oracle.record_published(
            DocumentDeleted(
                organization_id=self.system.organization_id,
                document_id=document_id_of(entry_id),
                revision=self._revisions[entry_id] + 1,
            )
        )

    def _pages(self) -> dict[str, str]:
        """Return what the entries of the source have to be, by their keys."""
        there = [page for page in range(PAGES) if page not in self.site.gone]
        pages = {f"{self.site.url}page/{page}": f"# Page {page}\n\n{self.site.text(page)}" for page in there}
        return {self.site.url: "# Home\n\nWelcome.", **pages}

    async def _until_no_run_is_open(self) -> None:
        async def none_is_open() -> bool:
            answer = await self.system.http.get(f"/knowledge-sources/{self.source_id}/runs")
            return all(run["finished_at"] for run in answer.raise_for_status().json()["runs"])

        await until(none_is_open, within_s=SLOW_S, every_s=0.1, what="the runs of the source end")


@asynccontextmanager
async def curated_knowledge(
    system: SystemUnderTest,
    caller: RecordingCaller,
    oracle: Oracle,
    *,
    seed: int,
    availability: AvailabilityRecorder,
) -> AsyncIterator[CuratedKnowledge]:
    """Serve the web site and make the source that reads it."""
    revisions = Revisions(WATCHED_ENTRY, seed=seed)
    reader = DocumentReader(system, "", document_id_of(WATCHED_ENTRY), revisions, availability)
    async with serve_site(WebSite(pages=PAGES)) as site:
        config = {"url": site.url, "depth": 1}
        source = {"label": "A web site", "kind": "url_crawl", "config": config}
        made = (await system.http.post("/knowledge-sources", json=source)).raise_for_status().json()
        yield CuratedKnowledge(system, caller, oracle, site, reader, made["source_id"])


async def _all_are_ready(system: SystemUnderTest) -> bool:
    others = {"organization_id": system.organization_id, "embedding_status": {"$ne": "ready"}}
    return not await system.database.knowledge_entries.count_documents(others)


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("title", "content", "tags", "embedding_text")}


def _differences(what: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[OracleFinding]:
    return [
        *(OracleFinding(f"{what} {each} is lost") for each in expected.keys() - found.keys()),
        *(OracleFinding(f"{what} {each} is there and must not be") for each in found.keys() - expected.keys()),
        *(
            OracleFinding(f"{what} {each} is not what was written last")
            for each in found.keys() & expected.keys()
            if found[each] != expected[each]
        ),
    ]
