"""`kb docs push`: from files to searchable documents."""

import asyncio
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import typer

from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_async_client, open_client
from kb_client.command_line.counts import count_documents
from kb_client.command_line.output import open_console, print_json
from kb_client.command_line.push.destination import Destination, create_knowledge_base, find_destination
from kb_client.command_line.push.display import PushDisplay
from kb_client.command_line.push.folder_claims import FolderClaim, check_folders, store_claims
from kb_client.command_line.push.follow import follow_folders
from kb_client.command_line.push.indexing_watch import watching_indexing
from kb_client.command_line.push.plan_output import print_plan, print_plan_as_json
from kb_client.command_line.push.report import FileOutcome, PushReport, summarize
from kb_client.command_line.push.request import FilesToPush, PushRequest
from kb_client.command_line.push.send import Sender, describe_failure
from kb_client.command_line.push.stored_documents import read_folders, read_views
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.files.document_ids import AmbiguousSource
from kb_client.files.document_parts import file_id
from kb_client.files.file_parser import FileParser, OcrUnavailable
from kb_client.files.file_problem import FileProblem
from kb_client.files.find_files import FoundFiles, count_by_reason
from kb_client.files.ignore_rules import UnusableIgnoreRules
from kb_client.files.push_plan import PushedDocument, PushPlan, plan_push
from kb_client.files.source_digest import digest_file

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient
    from kb_client.files.found_file import FoundFile
    from kb_contracts.api.documents import DocumentView

_SAMPLE_FILES: Final = 5
_SAMPLE_CHARACTERS: Final = 10_000
_LARGEST_SAMPLE_BYTES: Final = 5_000_000


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
            files = _read_digests(request, report)
            claims = asyncio.run(_claim_names(context, request, files.found))
            destination = _prepare(context, request, files=files, parser=parser)
            asyncio.run(
                _push(
                    context,
                    request,
                    files=files,
                    claims=claims,
                    destination=destination,
                    parser=parser,
                    report=report,
                    began_at=began_at,
                )
            )
    except (AmbiguousSource, OcrUnavailable, UnusableIgnoreRules) as error:
        raise UnusableRequest(str(error)) from None
    except KeyboardInterrupt:
        report.interrupted = True
        _print_end(request, report, began_at=began_at)
        print("interrupted; every document is either sent or not: push again to send the rest", file=sys.stderr)
        return 130
    return report.exit_status(strict=request.strict)


def _read_digests(request: PushRequest, report: PushReport) -> FilesToPush:
    with _status(request, "looking for files"):
        found = request.find_files()
        files = FilesToPush(found)
        for problem in found.problems:
            report.add_problem(problem)
        for file in found.files:
            digest = digest_file(file)
            if isinstance(digest, FileProblem):
                report.add_problem(digest, shown=file.relative_path, document_id=file.document_id)
                files.unreadable.add(file.document_id)
            else:
                files.files[file.document_id] = file
                files.digests[file.document_id] = digest
    report.skipped = count_by_reason(found.skipped)
    if not found.files and not (request.prune and found.complete_sources):
        raise UnusableRequest(_describe_nothing(found))
    return files


def _describe_nothing(found: FoundFiles) -> str:
    if found.problems:
        return "; ".join(str(each) for each in found.problems[:3])
    left_out = ", ".join(f"{count:,} x {reason}" for reason, count in count_by_reason(found.skipped).items())
    return f"there is no file to push{f' ({left_out})' if left_out else ''}; `kb docs push --help` lists the formats"


async def _claim_names(context: typer.Context, request: PushRequest, found: FoundFiles) -> list[FolderClaim]:
    """Make sure that no other folder has the names; return those that still have to be taken over from another one.

    Raises:
        UnusableRequest: another folder has one, and neither an answer nor an option says that it is the same.
    """

    def ask(question: str) -> bool:
        can_ask = sys.stdin.isatty() and not (request.as_json or request.dry_run)
        return can_ask and typer.confirm(question, err=True)

    async with open_async_client(context) as client:
        claims = await check_folders(
            client, found.roots, is_named=request.source is not None, adopt=request.adopt, ask=ask
        )
        if not request.dry_run:
            await store_claims(client, [each for each in claims if not each.is_adopted])
    return [each for each in claims if each.is_adopted]


def _prepare(context: typer.Context, request: PushRequest, *, files: FilesToPush, parser: FileParser) -> Destination:
    sources = sorted({each.source for each in files.found.files} or files.found.complete_sources)
    with open_client(context) as client:
        destination = find_destination(client, kb=request.kb, tag_ids=request.tag_ids, sources=sources)
        if request.dry_run:
            return destination
        sentences = [f"adding {destination.describe()}"]
        if destination.is_new:
            with _status(request, "reading a few files to find their language"):
                destination, sentences = create_knowledge_base(
                    client, destination, read_sample=lambda: _sample(parser, list(files.files.values()))
                )
        elif request.tag_ids:
            from kb_client.command_line.creation import create_tags

            create_tags(client, request.tag_ids)
    if not request.as_json:
        for sentence in sentences:
            print(sentence, flush=True)
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
    files: FilesToPush,
    claims: Sequence[FolderClaim],
    destination: Destination,
    parser: FileParser,
    report: PushReport,
    began_at: float,
) -> None:
    async with open_async_client(context) as client:
        complete = files.found.complete_sources if request.prune else set()
        sources = {each.source for each in files.files.values()} | complete
        stored = await read_folders(client, sorted(sources), wanted=files.digests, all_of_them=request.prune)
        plan = plan_push(
            stored.values(),
            files.digests,
            tag_ids=destination.tag_ids,
            prune_sources=complete,
            kept=files.unreadable,
        )
        await _report_unchanged(client, plan, files=files.files, stored=stored, report=report)
        if request.dry_run:
            if request.as_json:
                print_plan_as_json(plan, destination=destination, report=report)
            else:
                print_plan(plan, files=files.files, stored=stored, destination=destination, report=report)
            return
        _confirm_deletions(request, plan, claims)
        await store_claims(client, claims)
        total = len(plan.sends) + len(plan.retags) + len(plan.deletes)
        with PushDisplay(enabled=not request.as_json, total=total) as display:
            for problem in report.problems:
                display.print(problem)
            sender = Sender(client, parser, report=report, display=display, wait=request.wait)
            async with watching_indexing(
                client,
                destination.kb_id if request.wait and plan.sends else None,
                display=display,
                on_progress=sender.note_progress,
            ):
                await sender.carry_out(plan, files.files, stored=stored)
        _print_end(request, report, began_at=began_at, destination=destination)
        if request.watch:
            await follow_folders(client, sender, request=request, pushed=files.found, tag_ids=destination.tag_ids)


def _confirm_deletions(request: PushRequest, plan: PushPlan, claims: Sequence[FolderClaim]) -> None:
    """Ask before documents are deleted that the caller may not mean. Raises UnusableRequest."""
    if request.yes:
        return
    if plan.emptied_sources:
        names = ", ".join(sorted(plan.emptied_sources))
        raise UnusableRequest(
            f"--prune would delete all documents of {names}, whose folder has no file any more; if that is meant, pass"
            " --yes"
        )
    if claims and plan.deletes:
        names = ", ".join(f"{each.source!r}" for each in claims)
        confirm(
            f"--prune would delete {count_documents(len(plan.deletes))} that this folder has not pushed, of the folder"
            f" that was {names} before (--dry-run lists them). Delete them?",
            yes=False,
        )


async def _report_unchanged(
    client: "AsyncClient",
    plan: PushPlan,
    *,
    files: Mapping[str, "FoundFile"],
    stored: Mapping[str, PushedDocument],
    report: PushReport,
) -> None:
    """Report files that the server has, also those that it could not index, wholly or a part of them."""
    documents = [each for each in sorted(stored) if file_id(each) in plan.unchanged]
    may_have_failed = [each for each in documents if stored[each].has_failed]
    views = await read_views(client, may_have_failed)
    reasons = {file_id(each.document_id): reason for each in views if (reason := _describe_earlier(each))}
    indexing = {file_id(each) for each in documents if stored[each].is_being_indexed} - reasons.keys()
    report.still_indexing += len(indexing)
    for document_id in sorted(plan.unchanged):
        reason = reasons.get(document_id)
        report.outcomes.append(
            FileOutcome(files[document_id].relative_path, document_id, "failed" if reason else "unchanged", reason)
        )


def _describe_earlier(found: "DocumentView") -> str | None:
    """Say why a document could not be indexed; None if it could."""
    failed = next((each for each in found.knowledge_bases if each.status == "failed"), None)
    return None if failed is None else f"it was sent before, and {describe_failure(failed)}"


def _print_end(
    request: PushRequest, report: PushReport, *, began_at: float, destination: Destination | None = None
) -> None:
    if request.as_json:
        about = {"kb_id": destination.kb_id, "knowledge_base": destination.name} if destination else {"kb_id": None}
        print_json(report.to_json(**about, duration_s=round(time.monotonic() - began_at, 3)))
        return
    for line in summarize(report, duration_s=time.monotonic() - began_at):
        print(line)
    if destination and destination.name and report.count("searchable"):
        print(f'\nNext: kb ask "..." --kb {shlex.quote(destination.name)}')


def _status(request: PushRequest, what: str) -> AbstractContextManager[object]:
    return nullcontext() if request.as_json else open_console(errors=True).status(what)
