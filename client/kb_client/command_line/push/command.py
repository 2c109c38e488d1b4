"""`kb docs push`: from files to searchable documents."""

import asyncio
import shlex
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from kb_client.command_line.connection import open_async_client, open_client
from kb_client.command_line.output import open_console, print_json
from kb_client.command_line.push.destination import Destination, create_knowledge_base, find_destination
from kb_client.command_line.push.display import PushDisplay
from kb_client.command_line.push.report import FileOutcome, PushReport, summarize
from kb_client.command_line.push.send import Sender
from kb_client.command_line.push.stored_documents import read_documents, read_folders, read_views
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.files.document_ids import AmbiguousSource
from kb_client.files.file_parser import FileParser, OcrUnavailable
from kb_client.files.file_problem import FileProblem
from kb_client.files.find_files import FoundFiles, count_by_reason, find_files
from kb_client.files.push_plan import PushedDocument, PushPlan, plan_push
from kb_client.files.source_digest import digest_file
from kb_client.files.watch import FileChanges, FolderWatch

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient
    from kb_client.files.found_file import FoundFile
    from kb_contracts.api.documents import DocumentView

_SAMPLE_FILES: Final = 5
_SAMPLE_CHARACTERS: Final = 10_000
_LARGEST_SAMPLE_BYTES: Final = 5_000_000
_WATCH_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class PushRequest:
    """Arguments of the command."""

    paths: Sequence[str]
    kb: str | None = None
    tag_ids: Sequence[str] = ()
    root: Path | None = None
    source: str | None = None
    prune: bool = False
    yes: bool = False
    watch: bool = False
    wait: bool = True
    dry_run: bool = False
    ocr: bool = False
    ocr_languages: str = "eng"
    as_json: bool = False


@dataclass(slots=True)
class _State:
    """Files with their digests."""

    found: FoundFiles
    files: dict[str, "FoundFile"] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)


def push(context: typer.Context, request: PushRequest) -> int:
    """Push files and return the exit status.

    Raises:
        UnusableRequest: nothing can be pushed.
        KbClientError: the server can't be reached, or refuses everything.
    """
    began_at = time.monotonic()
    report = PushReport()
    try:
        with FileParser(ocr=request.ocr, ocr_languages=request.ocr_languages) as parser:
            state = _read_digests(request, report)
            destination = _prepare(context, request, state=state, parser=parser)
            asyncio.run(
                _push(
                    context,
                    request,
                    state=state,
                    destination=destination,
                    parser=parser,
                    report=report,
                    began_at=began_at,
                )
            )
    except (AmbiguousSource, OcrUnavailable) as error:
        raise UnusableRequest(str(error)) from None
    except KeyboardInterrupt:
        report.interrupted = True
        _print_end(request, report, began_at=began_at)
        print("interrupted; every document is either sent or not: push again to send the rest", file=sys.stderr)
        return 130
    return 1 if report.failures else 0


def _read_digests(request: PushRequest, report: PushReport) -> _State:
    with _status(request, "looking for files"):
        found = find_files(request.paths, root=request.root, source=request.source)
        state = _State(found)
        for problem in found.problems:
            report.add_problem(problem)
        for file in found.files:
            digest = digest_file(file)
            if isinstance(digest, FileProblem):
                report.add_problem(digest, shown=file.relative_path, document_id=file.document_id)
                state.unreadable.add(file.document_id)
            else:
                state.files[file.document_id] = file
                state.digests[file.document_id] = digest
    report.skipped = count_by_reason(found.skipped)
    if not found.files and not (request.prune and found.complete_sources):
        raise UnusableRequest(_describe_nothing(found))
    return state


def _describe_nothing(found: FoundFiles) -> str:
    if found.problems:
        return "; ".join(str(each) for each in found.problems[:3])
    left_out = ", ".join(f"{count:,} x {reason}" for reason, count in count_by_reason(found.skipped).items())
    return f"there is no file to push{f' ({left_out})' if left_out else ''}; `kb docs push --help` lists the formats"


def _prepare(context: typer.Context, request: PushRequest, *, state: _State, parser: FileParser) -> Destination:
    sources = sorted({each.source for each in state.found.files} or state.found.complete_sources)
    with open_client(context) as client:
        destination = find_destination(client, kb=request.kb, tag_ids=request.tag_ids, sources=sources)
        if request.dry_run:
            return destination
        sentences: list[str] = []
        if destination.is_new:
            with _status(request, "reading a few files to find their language"):
                destination, sentences = create_knowledge_base(
                    client, destination, read_sample=lambda: _sample(parser, list(state.files.values()))
                )
        elif request.tag_ids:
            from kb_client.command_line.creation import create_tags

            create_tags(client, request.tag_ids)
    if not request.as_json:
        for sentence in sentences:
            print(sentence)
    return destination


def _sample(parser: FileParser, files: Sequence["FoundFile"]) -> str:
    """Return the beginnings of some files, in which the language is recognized."""
    small = [each for each in files if each.size_bytes <= _LARGEST_SAMPLE_BYTES]
    step = max(1, len(small) // _SAMPLE_FILES)
    parsed = [parser.parse(each) for each in small[::step][:_SAMPLE_FILES]]
    return "\n\n".join(each.text[:_SAMPLE_CHARACTERS] for each in parsed if not isinstance(each, FileProblem))


async def _push(
    context: typer.Context,
    request: PushRequest,
    *,
    state: _State,
    destination: Destination,
    parser: FileParser,
    report: PushReport,
    began_at: float,
) -> None:
    async with open_async_client(context) as client:
        complete = state.found.complete_sources if request.prune else set()
        sources = {each.source for each in state.files.values()} | complete
        stored = await read_folders(client, sorted(sources), wanted=state.digests, all_of_them=request.prune)
        plan = plan_push(
            stored.values(),
            state.digests,
            tag_ids=destination.tag_ids,
            prune_sources=complete,
            kept=state.unreadable,
        )
        _refuse_to_empty(request, plan)
        await _report_unchanged(client, plan, files=state.files, stored=stored, report=report)
        if request.dry_run:
            _print_plan(request, plan, files=state.files, destination=destination, report=report)
            return
        total = len(plan.sends) + len(plan.retags) + len(plan.deletes)
        with PushDisplay(enabled=not request.as_json, total=total) as display:
            sender = Sender(client, parser, report=report, display=display, wait=request.wait)
            await sender.carry_out(plan, state.files)
        _print_end(request, report, began_at=began_at, destination=destination)
        if request.watch:
            await _watch(client, sender, request=request, state=state, destination=destination)


async def _watch(
    client: "AsyncClient", sender: Sender, *, request: PushRequest, state: _State, destination: Destination
) -> None:
    """Follow the folders until Ctrl-C."""
    if not request.as_json:
        print("watching; Ctrl-C ends it")
    watch = FolderWatch(state.found.files)
    while True:
        await asyncio.sleep(_WATCH_EVERY_S)
        found = await asyncio.to_thread(find_files, request.paths, root=request.root, source=request.source)
        if found.problems:
            continue
        changes = watch.observe(found.files, now_s=time.monotonic())
        if changes:
            plan = await plan_changes(client, changes, tag_ids=destination.tag_ids, prune=request.prune)
            await sender.carry_out(plan, {each.document_id: each for each in changes.changed})


async def plan_changes(
    client: "AsyncClient", changes: FileChanges, *, tag_ids: Collection[str], prune: bool
) -> PushPlan:
    """Plan what changed files need: others may have tagged their documents since the last push."""
    digests: dict[str, str] = {}
    for file in changes.changed:
        digest = await asyncio.to_thread(digest_file, file)
        # A file that can't be read any more will have changed again.
        if not isinstance(digest, FileProblem):
            digests[file.document_id] = digest
    stored = await read_documents(client, list(digests))
    plan = plan_push(stored.values(), digests, tag_ids=tag_ids)
    return replace(plan, deletes=changes.gone if prune else frozenset())


def _refuse_to_empty(request: PushRequest, plan: PushPlan) -> None:
    if plan.emptied_sources and not request.yes:
        names = ", ".join(sorted(plan.emptied_sources))
        raise UnusableRequest(
            f"--prune would delete all documents of {names}, whose folder has no file any more; if that is meant, pass"
            " --yes"
        )


async def _report_unchanged(
    client: "AsyncClient",
    plan: PushPlan,
    *,
    files: Mapping[str, "FoundFile"],
    stored: Mapping[str, PushedDocument],
    report: PushReport,
) -> None:
    """Report files that the server has, also those that it could not index."""
    may_have_failed = [each for each in sorted(plan.unchanged) if stored[each].has_failed]
    reasons = {each.document_id: _describe_failure(each) for each in await read_views(client, may_have_failed)}
    for document_id in sorted(plan.unchanged):
        reason = reasons.get(document_id)
        report.outcomes.append(
            FileOutcome(files[document_id].relative_path, document_id, "failed" if reason else "unchanged", reason)
        )
        report.still_indexing += not reason and stored[document_id].is_being_indexed


def _describe_failure(found: "DocumentView") -> str | None:
    """Say why a document could not be indexed; None if it could."""
    failed = next((each for each in found.knowledge_bases if each.status == "failed"), None)
    if failed is None:
        return None
    reason = failed.error.message if failed.error else "it can't be indexed"
    return f"it was sent before, and {reason}; then: kb kb retry-failed {failed.kb_id}"


def _print_plan(
    request: PushRequest,
    plan: PushPlan,
    *,
    files: Mapping[str, "FoundFile"],
    destination: Destination,
    report: PushReport,
) -> None:
    if request.as_json:
        print_json(
            {
                "tag_ids": list(destination.tag_ids),
                "knowledge_base": destination.name,
                "is_new": destination.is_new,
                "send": sorted(plan.sends),
                "retag": sorted(plan.retags),
                "delete": sorted(plan.deletes),
                "unchanged": sorted(plan.unchanged),
                "failed": [each.file for each in report.failures],
            }
        )
        return
    for document_id in plan.sends:
        print(f"send  {files[document_id].relative_path}")
    for document_id in plan.retags:
        print(f"tags  {files[document_id].relative_path}")
    for document_id in sorted(plan.deletes):
        print(f"del   {document_id}")
    for failure in report.failures:
        print(f"FAIL  {failure.file}: {failure.reason}")
    where = f"knowledge base {destination.name!r}" if destination.name else f"tags {', '.join(destination.tag_ids)}"
    new = ", which would be created" if destination.is_new else ""
    print(f"to {where}{new}; {len(plan.unchanged):,} unchanged. Nothing was sent.")


def _print_end(
    request: PushRequest, report: PushReport, *, began_at: float, destination: Destination | None = None
) -> None:
    if request.as_json:
        kb_id = destination.kb_id if destination else None
        print_json(report.to_json(kb_id=kb_id, duration_s=round(time.monotonic() - began_at, 3)))
        return
    for line in summarize(report, duration_s=time.monotonic() - began_at):
        print(line)
    if destination and destination.name and report.count("searchable"):
        print(f'\nNext: kb ask "..." --kb {shlex.quote(destination.name)}')


def _status(request: PushRequest, what: str) -> AbstractContextManager[object]:
    return nullcontext() if request.as_json else open_console(errors=True).status(what)
