"""The steps of the demo: create two knowledge bases, publish documents, ask questions, retag and delete."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, time_ns
from typing import Final

from kb_client.events import EventPublisher
from kb_contracts.documents import DocumentDeleted, OcrCompleted, TagsChanged
from kb_local.demo.api import NO_PROGRESS_TIMEOUT_S, Api, DemoFailed
from kb_local.demo.demo_questions import DEMO_QUESTIONS
from kb_local.demo.documents import LibraryDocument, installed_libraries
from kb_local.demo.figures import Figures, counters, percentiles_ms, spus_charged
from kb_local.demo.output import DemoOutput
from kb_local.progress_deadline import ProgressDeadline
from kb_local.stack import Stack
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel

SINGLE_EVENTS: Final = 20
POLL_INTERVAL_S: Final = 0.2

PERMISSIVE: Final = ("license-mit", "license-bsd")
NETWORK: Final = (
    "topic-internet",
    "topic-internet-www-http",
    "framework-asyncio",
    "framework-trio",
    "topic-system-networking",
    "topic-software-development-libraries-python-modules",
)
PERMISSIVE_NAME: Final = "Permissive libraries"
NETWORK_NAME: Final = "Libraries for the network"


@dataclass(frozen=True, slots=True)
class DemoKnowledgeBases:
    """Ids of the two knowledge bases."""

    permissive: str
    network: str


class DemoScenario:
    """One run of the demo on a stack that is running."""

    def __init__(self, stack: Stack, api: Api, *, events: EventPublisher, output: DemoOutput, figures: Figures) -> None:
        self._stack = stack
        self._api = api
        self._events = events
        self._output = output
        self._figures = figures
        self._organization_id = stack.organization_id

    async def run(self) -> None:
        """Run all steps and fill in the figures."""
        libraries = installed_libraries()
        bases = await self._create_bases(libraries)
        await self._publish_and_wait(libraries, bases)
        await self._measure_single_events(bases)
        await self._ask_questions(bases)
        await self._retag_and_delete(libraries, bases)
        await self._collect_figures(libraries, bases)

    async def _create_bases(self, libraries: Sequence[LibraryDocument]) -> DemoKnowledgeBases:
        self._output.print_step("Creating two knowledge bases with overlapping tags")
        await self._api.create_tags(sorted({*PERMISSIVE, *NETWORK}))
        permissive = await self._api.create_knowledge_base(
            PERMISSIVE_NAME, "Under the MIT or a BSD licence", tag_ids=PERMISSIVE
        )
        network = await self._api.create_knowledge_base(
            NETWORK_NAME, "Internet, asyncio and modules to build on", tag_ids=NETWORK
        )
        for kb_id in (permissive, network):
            await self._api.wait_until_active(kb_id)
        both = sum(_has_any_tag(each, PERMISSIVE) and _has_any_tag(each, NETWORK) for each in libraries)
        self._output.print_line(f"{PERMISSIVE_NAME!r} and {NETWORK_NAME!r}; {both} documents belong to both")
        return DemoKnowledgeBases(permissive, network)

    async def _publish_and_wait(self, libraries: Sequence[LibraryDocument], bases: DemoKnowledgeBases) -> None:
        self._output.print_step(
            f"Publishing {len(libraries)} documents (descriptions of installed libraries) as events on Kafka"
        )
        began = monotonic()
        revision = time_ns() // 1_000_000
        await self._events.publish_all(
            [_ocr_completed(each, self._organization_id, revision=revision) for each in libraries]
        )
        # Topics are often known later than the text, so their tags are published in an event of their own.
        await self._events.publish_all(
            [_tags_changed(each, self._organization_id, revision=revision + 1) for each in libraries]
        )
        await self.wait_until_indexed(
            {
                bases.permissive: sum(_has_any_tag(each, PERMISSIVE) for each in libraries),
                bases.network: sum(_has_any_tag(each, NETWORK) for each in libraries),
            }
        )
        self._figures.bulk_s = round(monotonic() - began, 2)

    async def wait_until_indexed(self, expected: Mapping[str, int]) -> None:
        """Wait until each KB has the expected number of documents.

        Raises:
            DemoFailed: some failed, or no further one was indexed for `NO_PROGRESS_TIMEOUT_S`.
        """
        deadline = ProgressDeadline(NO_PROGRESS_TIMEOUT_S)
        with self._output.show_progress("indexing", sum(expected.values())) as bar:
            while True:
                indexed = {kb_id: (await self._api.knowledge_base(kb_id))["document_count"] for kb_id in expected}
                bar.show_completed(sum(indexed.values()))
                if indexed == expected:
                    return
                deadline.record(tuple(indexed.values()))
                await self._stop_if_stuck(expected, deadline)
                await asyncio.sleep(POLL_INTERVAL_S)

    async def _stop_if_stuck(self, kb_ids: Iterable[str], deadline: ProgressDeadline) -> None:
        failed = sum([await self._api.failed_documents(kb_id) for kb_id in kb_ids])
        if failed or deadline.is_over:
            raise DemoFailed(
                f"{failed} documents failed"
                if failed
                else f"no further document was indexed for {NO_PROGRESS_TIMEOUT_S:.0f} s",
                remedy=f"read the logs in {self._stack.home.logs}",
            )

    async def _measure_single_events(self, bases: DemoKnowledgeBases) -> None:
        self._output.print_step(f"Publishing {SINGLE_EVENTS} single events and measuring when each is searchable")
        seconds = [await self._time_until_searchable(bases.permissive, number) for number in range(SINGLE_EVENTS)]
        self._figures.searchable_ms = percentiles_ms(seconds)

    async def _time_until_searchable(self, kb_id: str, number: int) -> float:
        text = f"Field note {number}: the {number * 37}th widget hums at {440 + number} hertz when it is warm."
        document_id = f"field-note-{number}"
        # Puts the query's vector into the cache, so that only the indexing of the document is measured.
        await self._api.search(kb_id, text, document_ids=[document_id])
        began = monotonic()
        await self._events.publish(
            OcrCompleted(
                organization_id=self._organization_id,
                document_id=document_id,
                revision=1,
                document_name=f"Field note {number}",
                tag_ids=["license-mit"],
                upload_date=datetime.now(UTC),
                text=text,
            )
        )
        await self._api.wait_for_document(kb_id, text, document_id=document_id, present=True)
        return monotonic() - began

    async def _ask_questions(self, bases: DemoKnowledgeBases) -> None:
        self._output.print_step("Asking three questions, each in a search and through an agent")
        agents = {
            kb_id: await self._api.create_agent(f"Guide to {name}", kb_id=kb_id)
            for kb_id, name in ((bases.permissive, PERMISSIVE_NAME), (bases.network, NETWORK_NAME))
        }
        for asked in DEMO_QUESTIONS:
            is_permissive, question = asked.asks == "permissive", asked.text
            kb_id, name = (bases.permissive, PERMISSIVE_NAME) if is_permissive else (bases.network, NETWORK_NAME)
            found = await self._api.search(kb_id, question, top_k=3)
            self._output.print_results(question, name, results=found["results"])
            run = await self._api.run(agents[kb_id], question)
            self._output.print_answer(run)
            self._figures.questions.append(
                {
                    "question": question,
                    "knowledge_base": name,
                    "results": [
                        {key: result[key] for key in ("source", "relevance", "document_id", "chunk_index")}
                        for result in found["results"]
                    ],
                    "spu_charged": found["spu_charged"],
                    "run": {key: run[key] for key in ("run_id", "model", "answer", "citations", "iterations", "spus")},
                }
            )

    async def _retag_and_delete(self, libraries: Sequence[LibraryDocument], bases: DemoKnowledgeBases) -> None:
        subject = next(each for each in libraries if _has_any_tag(each, PERMISSIVE) and not _has_any_tag(each, NETWORK))
        revision = time_ns() // 1_000_000
        query = f"What is {subject.name}?"
        for kb_id in (bases.permissive, bases.network):
            await self._api.search(kb_id, query, document_ids=[subject.document_id])

        self._output.print_step(f"Retagging {subject.name}: license-mit and license-bsd removed, topic-internet added")
        moved = TagsChanged(
            organization_id=self._organization_id,
            document_id=subject.document_id,
            revision=revision,
            tag_ids=["topic-internet"],
        )
        await self._events.publish(moved)
        gone, arrived = await run_all_or_cancel(
            [
                self._api.wait_for_document(bases.permissive, query, document_id=subject.document_id, present=False),
                self._api.wait_for_document(bases.network, query, document_id=subject.document_id, present=True),
            ]
        )
        self._output.print_line(
            f"removed from {PERMISSIVE_NAME!r} after {gone * 1000:.0f} ms,"
            f" found in {NETWORK_NAME!r} after {arrived * 1000:.0f} ms (vectors from the cache)"
        )

        self._output.print_step(f"Deleting {subject.name}")
        deleted = DocumentDeleted(
            organization_id=self._organization_id, document_id=subject.document_id, revision=revision + 1
        )
        await self._events.publish(deleted)
        forgotten = await self._api.wait_for_document(
            bases.network, query, document_id=subject.document_id, present=False
        )
        self._output.print_line(f"no longer found after {forgotten * 1000:.0f} ms")
        self._figures.changes = {
            "retag_gone_ms": round(gone * 1000, 1),
            "retag_found_ms": round(arrived * 1000, 1),
            "delete_gone_ms": round(forgotten * 1000, 1),
        }

    async def _collect_figures(self, libraries: Sequence[LibraryDocument], bases: DemoKnowledgeBases) -> None:
        indexer = await counters(self._stack.services["kb_indexer"].url)
        figures = self._figures
        figures.documents = len(libraries)
        figures.knowledge_bases = [
            {key: kb[key] for key in ("kb_id", "name", "document_count", "chunk_count")}
            for kb in [await self._api.knowledge_base(kb_id) for kb_id in (bases.permissive, bases.network)]
        ]
        figures.chunks = sum(kb["chunk_count"] for kb in figures.knowledge_bases)
        figures.embeddings_generated = int(indexer.get("kb_embeddings_generated_total", 0))
        figures.embeddings_from_cache = int(indexer.get("kb_embedding_cache_hits_total", 0))
        figures.spus = await spus_charged(
            self._stack.mongo_uri, self._stack.database, organization_id=self._organization_id
        )


def _has_any_tag(library: LibraryDocument, tag_ids: Sequence[str]) -> bool:
    return not set(library.tag_ids).isdisjoint(tag_ids)


def _ocr_completed(library: LibraryDocument, organization_id: str, *, revision: int) -> OcrCompleted:
    return OcrCompleted(
        organization_id=organization_id,
        document_id=library.document_id,
        revision=revision,
        document_name=library.name,
        tag_ids=list(library.licence_tags),
        upload_date=library.installed_at,
        text=library.text,
        metadata={"version": library.version},
        content_type="text/markdown",
    )


def _tags_changed(library: LibraryDocument, organization_id: str, *, revision: int) -> TagsChanged:
    return TagsChanged(
        organization_id=organization_id,
        document_id=library.document_id,
        revision=revision,
        tag_ids=list(library.tag_ids),
    )
