"""`kb export` and `kb import`: move a KB to another organization or deployment as a file."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeVar

import typer

from kb_client.command_line.examples import examples
from kb_client.command_line.output_format import TableOrJson

if TYPE_CHECKING:  # heavy, and all other subcommands of `kb` load this file
    from kb_reconciler.export.export_kb import NoteProgress
    from kb_reconciler.export.import_plan import ImportRequest
    from kb_reconciler.export.kbx import FileContents, KbxManifest
    from kb_reconciler.export.settings import TransferSettings
    from kb_shared.mongo.database import Database
    from kb_shared.mongo.keys import KnowledgeBaseKey

Result = TypeVar("Result")
POLL_S: Final = 0.5
MAX_WAIT_WITHOUT_PROGRESS_S: Final = 300.0
_SNAPSHOT_TOO_OLD: Final = 239


class TransferFailed(Exception):
    """Failure that the caller can fix. `str()` says what happened, and what to do."""


def register(app: typer.Typer) -> None:
    """Add the commands to `kb`."""
    app.command("export", epilog=examples("kb export 6b06c6c42cc6f6099a3ac718 handbook.kbx"))(export_file)
    app.command("import", epilog=examples("kb import handbook.kbx --organization acme"))(import_file)


def export_file(
    kb_id: Annotated[str, typer.Argument(metavar="KB", help="Id of the knowledge base.")],
    file: Annotated[Path, typer.Argument(metavar="FILE.kbx", help="File to write. It must not exist.")],
    *,
    without_vectors: Annotated[
        bool, typer.Option("--without-vectors", help="Leave out the vectors: a smaller file, charged at import.")
    ] = False,
    config_only: Annotated[
        bool, typer.Option("--config-only", help="Write the configuration and its tags only.")
    ] = False,
    output: TableOrJson = "table",
) -> None:
    """Write a knowledge base with its documents, tags and vectors to a file.

    The environment variables KB_MONGO_URI and KB_MONGO_DATABASE say where it is, as for the services.
    """
    if without_vectors and config_only:
        raise typer.BadParameter("--config-only has no vectors anyway: leave out --without-vectors")
    contents: FileContents = "config-only" if config_only else "without-vectors" if without_vectors else "full"
    manifest = _or_exit(lambda: _export(kb_id, file, contents=contents))
    if output == "json":
        print(json.dumps({"file": str(file), **manifest.model_dump(mode="json", exclude={"members"})}, indent=2))
    else:
        from kb_reconciler.export.command_output import describe_export

        print(describe_export(file, manifest))


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE.kbx", help="File that `kb export` has written.")],
    *,
    organization: Annotated[str, typer.Option("--organization", help="Id of the organization to import into.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the new knowledge base.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="OLD=NEW", help="New id of a tag; may be repeated.")
    ] = None,
    document_prefix: Annotated[
        str, typer.Option("--document-prefix", help="Put this before the ids of all documents.")
    ] = "",
    without_vectors: Annotated[
        bool, typer.Option("--without-vectors", help="Embed all chunks again, which is charged.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Create another knowledge base although this file was imported before.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the documents are indexed.")] = False,
    output: TableOrJson = "table",
) -> None:
    """Create a knowledge base from a file. Its documents and tags are added to the organization.

    The environment variables KB_MONGO_URI and KB_MONGO_DATABASE say where, as for the services.
    """
    from kb_reconciler.export.id_mapping import IdMapping
    from kb_reconciler.export.import_plan import ImportRequest

    try:
        mapping = IdMapping.parse(tag or (), document_prefix=document_prefix)
        _check_name(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    request = ImportRequest(organization, mapping, name=name, use_vectors=not without_vectors, again=again)
    outcome = _or_exit(lambda: _import(file, request, confirm=not yes, wait=wait))
    if output == "json":
        print(json.dumps(outcome, indent=2))
    else:
        from kb_reconciler.export.command_output import describe_import

        print(describe_import(outcome))


async def _export(kb_id: str, file: Path, *, contents: "FileContents") -> "KbxManifest":
    from kb_reconciler.export.export_kb import export_knowledge_base
    from kb_shared.mongo import knowledge_bases

    async with _connected() as (database, _):
        key = await knowledge_bases.find_key(database, kb_id)
        if key is None:
            raise TransferFailed(f"there is no knowledge base {kb_id!r} in this database")
        with _ProgressLine() as note:
            return await export_knowledge_base(database, key, file, contents=contents, note=note)


async def _import(file: Path, request: "ImportRequest", *, confirm: bool, wait: bool) -> dict[str, Any]:
    from dataclasses import replace

    from kb_reconciler.export.command_output import describe_plan, summarize
    from kb_reconciler.export.import_kb import KnowledgeBaseImport
    from kb_reconciler.export.import_plan import ImportLimits
    from kb_reconciler.export.kbx_reader import KbxReader
    from kb_shared.mongo.keys import KnowledgeBaseKey
    from kb_shared.observability.traced_process import exporting_spans

    async with _connected() as (database, settings):
        if settings.embedding_cache_scope == "global":
            # Vectors of a file must not reach other organizations: only the file says that they are right.
            request = replace(request, use_vectors=False)
            print("KB_EMBEDDING_CACHE_SCOPE is global, so the vectors of the file are not used", file=sys.stderr)
        limits = ImportLimits(settings.max_knowledge_bases, settings.max_chunks_per_document)
        with KbxReader(file, max_text_bytes=settings.max_text_bytes) as reader, _ProgressLine() as note:
            running = KnowledgeBaseImport(database, reader, request, limits=limits, note=note)
            plan = await running.check()
            if plan.imported_before is None:
                note.pause()
                print(describe_plan(plan), file=sys.stderr)
                if confirm and not typer.confirm("Import?", err=True):
                    raise TransferFailed("nothing was imported")
                note.resume()
            with exporting_spans("kb-import"):
                kb_id = await running.run(plan)
            if wait:
                await _wait(database, KnowledgeBaseKey(request.organization_id, kb_id), note=note)
    return summarize(plan, request, kb_id)


async def _wait(database: "Database", key: "KnowledgeBaseKey", *, note: "NoteProgress") -> None:
    """Return once the KB is active. Raises TransferFailed if there is no progress for some minutes."""
    import asyncio
    from time import monotonic

    from kb_shared.mongo import document_index, knowledge_bases
    from kb_shared.mongo.knowledge_bases import Status

    last, changed_at = None, monotonic()
    while True:
        kb = await knowledge_bases.get(database, key)
        done = await document_index.count(database, key)
        if kb.status is Status.ACTIVE:
            return
        if kb.status is Status.ERROR:
            raise TransferFailed(f"knowledge base {key.kb_id} is imported, but in error: {kb.status_reason}")
        note(f"indexing ({kb.status})", done)
        if (kb.status, done) != last:
            last, changed_at = (kb.status, done), monotonic()
        if monotonic() - changed_at > MAX_WAIT_WITHOUT_PROGRESS_S:
            raise TransferFailed(
                f"knowledge base {key.kb_id} is imported, but nothing was indexed for "
                f"{MAX_WAIT_WITHOUT_PROGRESS_S:.0f} s: are kb-api and the indexer running? They continue once they do"
            )
        await asyncio.sleep(POLL_S)


@asynccontextmanager
async def _connected() -> "AsyncIterator[tuple[Database, TransferSettings]]":
    from pydantic import ValidationError

    from kb_reconciler.export.settings import TransferSettings
    from kb_shared.mongo.database import connect

    try:
        settings = TransferSettings()
    except ValidationError as error:
        wrong = ", ".join(f"KB_{str(problem['loc'][0]).upper()}" for problem in error.errors() if problem["loc"])
        raise TransferFailed(f"these environment variables can't be used: {wrong}") from None
    database = connect(settings)
    try:
        yield database, settings
    finally:
        await database.client.close()


class _ProgressLine:
    """Progress on stderr, if that is a terminal: what is in work, and how many are done."""

    def __init__(self) -> None:
        from rich.console import Console

        self._status = Console(file=sys.stderr).status("reading")

    def __enter__(self) -> Self:
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def __call__(self, work: str, done: int) -> None:
        self._status.update(f"{work}: {done}")

    def pause(self) -> None:
        """Remove the line, so that something else can be printed."""
        self._status.stop()

    def resume(self) -> None:
        if sys.stderr.isatty():
            self._status.start()


def _or_exit(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Return what `work` returns; an error that the caller can fix becomes a message and exit status 1, Ctrl-C 130."""
    import asyncio

    from pymongo.errors import PyMongoError

    from kb_reconciler.export.kbx import UnreadableFile
    from kb_shared.errors import KbError
    from kb_shared.mongo.database import mongo_errors

    async def with_known_errors() -> Result:
        with mongo_errors():
            return await work()

    try:
        return asyncio.run(with_known_errors())
    except (UnreadableFile, TransferFailed, KbError) as error:
        message, status = str(error), 1
    except PyMongoError as error:
        message, status = _describe_mongo_error(error), 1
    except OSError as error:
        message, status = error.strerror or type(error).__name__, 1
    except KeyboardInterrupt:
        message, status = "interrupted; run the same command again", 130
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(status) from None


def _describe_mongo_error(error: Exception) -> str:
    if getattr(error, "code", None) == _SNAPSHOT_TOO_OLD:
        return (
            "the export took longer than MongoDB keeps a snapshot: raise minSnapshotHistoryWindowInSeconds (300 by "
            "default) and export again"
        )
    return f"MongoDB refuses a command ({type(error).__name__}, code {getattr(error, 'code', None)})"


def _check_name(name: str | None) -> None:
    from pydantic import TypeAdapter, ValidationError

    from kb_reconciler.export.kbx import VisibleName

    try:
        TypeAdapter(VisibleName | None).validate_python(name)
    except ValidationError:
        raise ValueError(
            "--name must have 1 to 200 characters, one of them visible, and no control characters"
        ) from None
