"""Sends files one after the other, and waits meanwhile for those that are being indexed."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kb_client.command_line.push.display import PushDisplay
from kb_client.command_line.push.report import FileOutcome, PushReport
from kb_client.command_line.push.stored_documents import first_error_raised
from kb_client.errors import HttpConflict, HttpContentTooLarge, HttpUnprocessableContent
from kb_client.files.document_parts import file_id, group_by_file, split_document
from kb_client.files.file_problem import FileProblem
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient
    from kb_client.files.file_parser import FileParser
    from kb_client.files.found_file import FoundFile
    from kb_client.files.parsed_file import ParsedFile
    from kb_client.files.push_plan import PushedDocument, PushPlan
    from kb_contracts.api.documents import DocumentView, MembershipView
    from kb_contracts.metadata import MetadataWarning

MAX_WAIT_WITHOUT_PROGRESS_S: Final = 300.0
_WAITING_AT_ONCE: Final = 16
_ONE_WAIT_S: Final = 10.0
"""Time after which what is shown of a document is brought up to date."""


class Sender:
    """Carries out a plan.

    Args:
        client: client of the organization.
        parser: reads the files.
        report: takes the outcomes, also of a push that is interrupted.
        display: shows them.
        wait: whether to wait until the documents are searchable.
    """

    def __init__(
        self, client: "AsyncClient", parser: "FileParser", *, report: PushReport, display: PushDisplay, wait: bool
    ) -> None:
        self._client = client
        self._parser = parser
        self._report = report
        self._display = display
        self._wait = wait
        self._slots = asyncio.Semaphore(_WAITING_AT_ONCE)
        self._progress_at = time.monotonic()

    async def carry_out(
        self, plan: "PushPlan", files: Mapping[str, "FoundFile"], *, stored: Mapping[str, "PushedDocument"]
    ) -> None:
        """Delete, tag and send. Each document is one request, so that an interruption leaves none half done.

        Args:
            plan: what to do.
            files: files to send or tag, by their documents.
            stored: the documents to delete.

        Raises:
            KbClientError: the server can't be reached, or refuses everything.
        """
        async with first_error_raised(), asyncio.TaskGroup() as waiting:
            await self._change(plan, files, stored)
            # Small files first: the first answers are possible at once, while a large file is still being indexed.
            for document_id in sorted(plan.sends, key=lambda each: files[each].size_bytes):
                parsed = await self._read(files[document_id])
                if parsed is not None:
                    tag_ids = plan.sends[document_id]
                    await self._send_parts(parsed, files[document_id], tag_ids=tag_ids, stored=stored, waiting=waiting)
            self._display.all_sent = True

    def note_progress(self) -> None:
        """Note that something was indexed: waiting for the rest goes on."""
        self._progress_at = time.monotonic()

    async def _send_parts(
        self,
        parsed: "ParsedFile",
        file: "FoundFile",
        *,
        tag_ids: frozenset[str],
        stored: Mapping[str, "PushedDocument"],
        waiting: asyncio.TaskGroup,
    ) -> None:
        """Send a file, in parts if it is long: the first one, which says that the others are there, last."""
        first, *others = split_document(parsed)
        for number, part in enumerate(others, start=2):
            known = stored.get(part.document_id)
            tags = tag_ids | (known.tag_ids if known else frozenset())
            if known is not None and known.source_digest == part.source_digest and tags == known.tag_ids:
                continue
            self._display.expect(1)
            name = f"{file.relative_path}, part {number} of {len(others) + 1}"
            if not await self._send(part, name, tag_ids=tags, waiting=waiting):
                # The file stays one that was not sent.
                return
        left_over = group_by_file(stored).get(first.document_id, set()) - {each.document_id for each in others}
        for document_id in sorted(left_over):
            await self._client.documents.delete(document_id)
        await self._send(first, file.relative_path, tag_ids=tag_ids, waiting=waiting)

    async def _change(
        self, plan: "PushPlan", files: Mapping[str, "FoundFile"], stored: Mapping[str, "PushedDocument"]
    ) -> None:
        for document_id in sorted(plan.deletes):
            await self._client.documents.delete(document_id)
            self._finish(FileOutcome(stored[document_id].shown_name, document_id, "deleted"))
        for document_id, tag_ids in plan.retags.items():
            await self._client.documents.replace_tags(document_id, tag_ids=sorted(tag_ids))
            self._finish(FileOutcome(files[file_id(document_id)].relative_path, document_id, "retagged"))

    async def _read(self, file: "FoundFile") -> "ParsedFile | None":
        self._display.show(file.relative_path, "reading")
        parsed = await asyncio.to_thread(self._parser.parse, file)
        if isinstance(parsed, FileProblem):
            reason = f"{parsed.reason}; {parsed.remedy}"
            self._finish(FileOutcome(file.relative_path, file.document_id, "unreadable", reason))
            return None
        return parsed

    async def _send(
        self, parsed: "ParsedFile", name: str, *, tag_ids: frozenset[str], waiting: asyncio.TaskGroup
    ) -> bool:
        """Send a document, and let it be followed; return whether the server took it."""
        self._display.show(name, "sending")
        try:
            accepted = await self._client.documents.upload(
                parsed.document_id,
                parsed.text,
                document_name=parsed.document_name,
                tag_ids=sorted(tag_ids),
                upload_date=parsed.upload_date,
                metadata=parsed.metadata,
                pages=[each.model_dump() for each in parsed.pages],
                content_type=parsed.content_type,
                source_digest=parsed.source_digest,
                # Servers of earlier versions know no such field.
                reading_warnings=parsed.warnings or UNSET,
            )
        except (HttpConflict, HttpContentTooLarge, HttpUnprocessableContent) as error:
            self._finish(FileOutcome(name, parsed.document_id, "failed", str(error)))
            return False
        if self._wait:
            waiting.create_task(self._follow(parsed, name))
        else:
            warnings = (*parsed.warnings, *_words(accepted.warnings))
            self._finish(FileOutcome(name, parsed.document_id, "sent", warnings=warnings))
        return True

    async def _follow(self, parsed: "ParsedFile", name: str) -> None:
        """Wait until a document is searchable, or can't become so."""
        self._display.show(name, "indexing")
        async with self._slots:
            while True:
                view = await self._client.documents.get(parsed.document_id, wait="searchable", timeout_s=_ONE_WAIT_S)
                outcome = judge(view, name, warnings=parsed.warnings)
                stalled = time.monotonic() - self._progress_at > MAX_WAIT_WITHOUT_PROGRESS_S
                if outcome is not None or stalled:
                    break
                self._display.show(name, describe_indexing(view))
        self._finish(
            outcome
            or FileOutcome(
                name,
                parsed.document_id,
                "sent",
                f"still being indexed (this command waits while anything is indexed within "
                f"{MAX_WAIT_WITHOUT_PROGRESS_S / 60:.0f} minutes); later: kb docs show {parsed.document_id}",
                warnings=parsed.warnings,
            )
        )

    def _finish(self, outcome: FileOutcome) -> None:
        self.note_progress()
        self._report.outcomes.append(outcome)
        self._display.finish(outcome)


def _words(warnings: "Sequence[MetadataWarning]") -> list[str]:
    return [f"{each.field}: {each.message}" for each in warnings]


def describe_failure(failed: "MembershipView") -> str:
    """Say why a document could not be indexed in a knowledge base, and how to let it be tried again."""
    reason = failed.error.message if failed.error else "it can't be indexed"
    return f"{reason.rstrip('.')}. Once that is solved: kb kb retry-failed {failed.kb_id}"


def describe_indexing(view: "DocumentView") -> str:
    """Say how far a document is that is being indexed, where it is least far."""
    known = [each.embedding for each in view.knowledge_bases if each.embedding is not None]
    if not known:
        return "indexing"
    least = min(known, key=lambda each: each.embedded_count - each.chunk_count)
    return f"indexing, {least.embedded_count:,} of {least.chunk_count:,} passages,"


def judge(view: "DocumentView", file: str, *, warnings: tuple[str, ...] = ()) -> FileOutcome | None:
    """Return the outcome that the state of a document on the server means; None if it is still on its way.

    Args:
        warnings: those of the file; those of the document that are not among them follow.
    """
    warnings = (*warnings, *_words([each for each in view.warnings if each.message not in warnings]))
    passages = max((each.chunk_count for each in view.knowledge_bases), default=0)
    if view.searchable:
        return FileOutcome(file, view.document_id, "searchable", passages=passages, warnings=warnings)
    for each in view.knowledge_bases:
        if each.status == "failed":
            return FileOutcome(file, view.document_id, "failed", describe_failure(each), warnings=warnings)
        if each.status == "paused":
            reason = f"knowledge base {each.name!r} is paused: kb kb resume {each.kb_id}"
            return FileOutcome(file, view.document_id, "sent", reason, warnings=warnings)
    if view.alive and not view.knowledge_bases:
        reason = f"no knowledge base has the tag {' or '.join(view.tag_ids)}: kb kb create NAME --tag {view.tag_ids[0]}"
        return FileOutcome(file, view.document_id, "sent", reason, warnings=warnings)
    return None
