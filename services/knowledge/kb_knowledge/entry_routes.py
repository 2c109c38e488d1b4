from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response

from kb_contracts.api.knowledge_entries import (
    ChangeEntry,
    CreateEntry,
    EntryChunkList,
    EntryPage,
    EntryTotals,
    EntryView,
)
from kb_contracts.api.model import MessageResponse
from kb_contracts.knowledge.entry_fields import DEFAULT_INFO_TYPE, first_line
from kb_contracts.reserved_ids import document_id_of
from kb_knowledge.dependencies import Admin, Database, EmbeddingProviders, EntryWriter, Reader, Settings, Writer
from kb_knowledge.entry_cursors import create_cursor, read_cursor
from kb_knowledge.entry_filters import WantedEntries
from kb_knowledge.entry_response import chunk_view, entry_summary, entry_view
from kb_knowledge.read_entry_chunks import read_entry_chunks
from kb_knowledge.write_entries import check_entry
from kb_shared.errors import RequestError
from kb_shared.http.audit import give_reason
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.preconditions import IfMatch, require_version, set_etag
from kb_shared.http.problems import responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.identifiers import new_id
from kb_shared.mongo import citations, knowledge_entries
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.knowledge_entries import EntryKey, KnowledgeEntry, hash_content
from kb_shared.mongo.stored_time import now

CITES: Final = timedelta(days=30)
"""Time of which entries show their citations."""
_WHAT: Final = "entry"

router = organization_router("knowledge entries")


@router.post(
    "/knowledge-entries",
    operation_id="knowledge_entries.create",
    summary="Create an entry",
    status_code=201,
    responses=responses("entry-exists", "event-too-large", "quota-exceeded", "sensitive-content"),
)
async def create(
    database: Database,
    settings: Settings,
    writer: EntryWriter,
    caller: Writer,
    *,
    body: CreateEntry,
    request: Request,
    response: Response,
) -> EntryView:
    """Store an entry, which is indexed from now on.

    It is stored even while the embedding provider is away: `embedding_status` is `pending` until it is searchable. The
    first entry makes the knowledge base of the organization's entries.
    """
    _check(body, request)
    await require_quota(
        lambda: knowledge_entries.count(database, caller.organization_id),
        settings.max_knowledge_entries,
        things="entries",
        setting="KB_MAX_KNOWLEDGE_ENTRIES",
    )
    entry = _new_entry(caller, body)
    stored = await commit_change(
        database, lambda session: writer.create(session, entry), answer=lambda each: entry_view(each, cites_30d=0)
    )
    set_etag(response, stored.revision)
    response.headers["Location"] = f"/v0/orgs/{stored.organization_id}/knowledge-entries/{stored.entry_id}"
    return entry_view(stored, cites_30d=0)


def _check(written: CreateEntry | ChangeEntry, request: Request) -> None:
    if (reason := check_entry(written)) is not None:
        give_reason(request, reason)


def _new_entry(caller: Caller, body: CreateEntry) -> KnowledgeEntry:
    is_piece = body.knowledge_type is not None
    created_at = now()
    return KnowledgeEntry(
        organization_id=caller.organization_id,
        entry_id=body.entry_id or new_id(),
        title=body.title or first_line(body.content),
        content=body.content,
        tags=tuple(dict.fromkeys(body.tags)),
        type=body.type,
        # Given when the row is stored.
        revision=0,
        content_hash=hash_content(body.content, embedding_text=body.embedding_text),
        created_at=created_at,
        updated_at=created_at,
        created_by=caller.key_id,
        updated_by=caller.key_id,
        knowledge_type=body.knowledge_type,
        info_type=body.info_type or (DEFAULT_INFO_TYPE if is_piece else None),
        entity_id=body.entity_id,
        embedding_text=body.embedding_text,
    )


@router.get(
    "/knowledge-entries",
    operation_id="knowledge_entries.list",
    summary="List entries",
    responses=responses("cursor-of-other-filters"),
)
async def list_all(
    database: Database,
    caller: Reader,
    wanted: WantedEntries,
    *,
    cursor: Annotated[
        str | None,
        Query(max_length=1_000, description="`next_cursor` of the page before, with the same filters."),
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
) -> EntryPage:
    """List entries, newest first, with the numbers of all that match the filters."""
    after = None if cursor is None else read_cursor(cursor, wanted)
    organization_id = caller.organization_id
    # One more than asked for shows whether there is a further page.
    found = await knowledge_entries.find_page(database, organization_id, wanted, after=after, limit=limit + 1)
    page, has_more = found[:limit], len(found) > limit
    counts = await knowledge_entries.count_matching(database, organization_id, wanted)
    cites = await _count_cites(database, organization_id, entry_ids=[entry.entry_id for entry in page])
    return EntryPage(
        entries=[entry_summary(entry, cites_30d=cites.get(entry.entry_id, 0)) for entry in page],
        total_count=counts.total,
        totals=EntryTotals(by_status=dict(counts.by_status), by_source_type=dict(counts.by_source_type)),
        has_more=has_more,
        next_cursor=create_cursor(page[-1].position, wanted) if has_more else None,
    )


@router.get("/knowledge-entries/{entry_id}", operation_id="knowledge_entries.get", summary="Get an entry")
async def get(database: Database, caller: Reader, entry_id: str, response: Response) -> EntryView:
    entry = await knowledge_entries.get(database, EntryKey(caller.organization_id, entry_id))
    set_etag(response, entry.revision)
    return await _view(database, entry)


@router.patch(
    "/knowledge-entries/{entry_id}",
    operation_id="knowledge_entries.update",
    summary="Change an entry",
    responses=responses("event-too-large", "precondition-failed", "sensitive-content"),
)
async def change(
    database: Database,
    writer: EntryWriter,
    caller: Writer,
    entry_id: str,
    *,
    body: ChangeEntry,
    if_match: IfMatch,
    request: Request,
    response: Response,
) -> EntryView:
    """Change the given fields of an entry. Its id and its citations stay.

    Searches find the old content until the new one is indexed. What did not change costs nothing.
    """
    _check(body, request)
    fields: dict[str, Any] = {name: getattr(body, name) for name in body.model_fields_set - {"override_reason"}}
    if "tags" in fields:
        fields["tags"] = tuple(dict.fromkeys(body.tags))
    key = EntryKey(caller.organization_id, entry_id)

    async def store(session: MongoSession) -> KnowledgeEntry:
        entry = await knowledge_entries.get(database, key, session=session)
        require_version(entry.revision, if_match, what=_WHAT)
        return await writer.change(session, entry, fields=fields, by=caller.key_id)

    changed = await commit_change(database, store)
    set_etag(response, changed.revision)
    return await _view(database, changed)


@router.delete("/knowledge-entries/{entry_id}", operation_id="knowledge_entries.delete", summary="Delete an entry")
async def delete(database: Database, writer: EntryWriter, caller: Admin, entry_id: str) -> MessageResponse:
    """Delete an entry with its chunks and its citations. Runs that cite it keep its text."""
    key = EntryKey(caller.organization_id, entry_id)
    await commit_change(database, lambda session: writer.delete(session, key))
    return MessageResponse(message="Entry deleted successfully")


@router.get(
    "/knowledge-entries/{entry_id}/chunks",
    operation_id="knowledge_entries.list_chunks",
    summary="List the chunks of an entry",
)
async def list_chunks(
    database: Database,
    providers: EmbeddingProviders,
    caller: Reader,
    entry_id: str,
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> EntryChunkList:
    """Return the chunks that searches of the organization's entries find; none until the entry is indexed."""
    read = await read_entry_chunks(database, EntryKey(caller.organization_id, entry_id), skip=skip, limit=limit)
    provider = providers.label(read.embedding_model)
    return EntryChunkList(
        entry_id=entry_id,
        chunks=[chunk_view(chunk, embedding_provider=provider) for chunk in read.chunks],
        total_count=read.total_count,
    )


@router.post(
    "/knowledge-entries/{entry_id}/retry",
    operation_id="knowledge_entries.retry",
    summary="Index an entry again after an error",
    responses=responses("entry-not-failed", "event-too-large"),
)
async def retry(
    database: Database, writer: EntryWriter, caller: Writer, entry_id: str, response: Response
) -> EntryView:
    """Try again now to index an entry whose `embedding_status` is `error`."""
    key = EntryKey(caller.organization_id, entry_id)

    async def store(session: MongoSession) -> KnowledgeEntry:
        entry = await knowledge_entries.get(database, key, session=session)
        if entry.embedding_status != "error":
            raise RequestError(
                409,
                "entry-not-failed",
                "The embedding_status of the entry is not `error`. Wait until it is searchable, or change it.",
            )
        return await writer.repeat(session, entry, by=caller.key_id)

    repeated = await commit_change(database, store, answer=lambda each: entry_view(each, cites_30d=0))
    set_etag(response, repeated.revision)
    return await _view(database, repeated)


async def _view(database: Database, entry: KnowledgeEntry) -> EntryView:
    cites = await _count_cites(database, entry.organization_id, entry_ids=[entry.entry_id])
    return entry_view(entry, cites_30d=cites.get(entry.entry_id, 0))


async def _count_cites(database: Database, organization_id: str, *, entry_ids: Collection[str]) -> dict[str, int]:
    """Return the numbers of citations of entries, without those that have none."""
    document_ids = {document_id_of(entry_id): entry_id for entry_id in entry_ids}
    counted = await citations.count_by_document(
        database, organization_id, document_ids=document_ids, since=datetime.now(UTC) - CITES
    )
    return {document_ids[document_id]: cites for document_id, cites in counted.items()}
