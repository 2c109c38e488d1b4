"""Routes of sources: anyone in the organization sees them, administrators change and run them."""

from dataclasses import replace
from typing import Annotated

from fastapi import Query, Request

from kb_contracts.api.knowledge_sources import (
    CONFIG_OF_KIND,
    CreateKnowledgeSource,
    KnowledgeSourceList,
    KnowledgeSourceView,
    SourceFile,
    SourceFileName,
    SourcePreview,
    SourceRunList,
    SourceRunView,
    UpdateKnowledgeSource,
)
from kb_contracts.api.model import MessageResponse
from kb_knowledge.check_source import check_config, check_schedule, require_format
from kb_knowledge.delete_source import delete_source, source_running
from kb_knowledge.dependencies import Admin, Database, Reader, Settings, SourceKinds
from kb_knowledge.preview_source import preview_source
from kb_knowledge.source_response import preview_view, run_view, source_view
from kb_knowledge.store import knowledge_sources, mcp_servers, source_runs
from kb_knowledge.store.keys import McpServerKey, SourceKey, SourceRunKey
from kb_knowledge.store.knowledge_sources import KnowledgeSource, SourceKind
from kb_knowledge.store.source_runs import RunTrigger, SourceIsRunning, SourceRun
from kb_knowledge.upload_file import upload_file
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.changes import commit_change
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.stored_time import now

router = organization_router("knowledge sources")


@router.get(
    "/knowledge-sources",
    operation_id="knowledge_sources.list",
    summary="List sources",
    response_model=KnowledgeSourceList,
)
async def list_all(
    database: Database, caller: Reader, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT
) -> KnowledgeSourceList:
    """List the sources of the organization, newest first."""
    found, total_count = await knowledge_sources.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return KnowledgeSourceList(sources=[source_view(source) for source in found], total_count=total_count)


@router.post(
    "/knowledge-sources",
    operation_id="knowledge_sources.create",
    summary="Create a source",
    status_code=201,
    response_model=KnowledgeSourceView,
    responses=responses("quota-exceeded"),
)
async def create(
    database: Database, settings: Settings, caller: Admin, *, body: CreateKnowledgeSource
) -> KnowledgeSourceView:
    """Create a source. Without `cron_expression`, it is read only when `POST .../run` asks for it."""
    organization_id, source_id, created_at = caller.organization_id, knowledge_sources.new_source_id(), now()
    config = await check_config(database, organization_id, body.config, allow_private=settings.allow_private_addresses)
    await require_quota(
        lambda: knowledge_sources.count(database, organization_id),
        settings.max_knowledge_sources,
        things="knowledge sources",
        setting="KB_MAX_KNOWLEDGE_SOURCES",
    )
    source = KnowledgeSource(
        source_id=source_id,
        organization_id=organization_id,
        label=body.label,
        kind=SourceKind(body.kind),
        config=config,
        cron_expression=body.cron_expression,
        enabled=body.enabled,
        created_at=created_at,
        created_by=caller.key_id,
        updated_at=created_at,
        updated_by=caller.key_id,
        next_run_at=check_schedule(body.cron_expression, enabled=body.enabled, source_id=source_id, now=created_at),
    )

    async def store(session: MongoSession) -> None:
        await _require_mcp_server(database, session, source)
        await knowledge_sources.insert(database, session, source)

    view = source_view(source)
    await commit_change(database, store, answer=lambda _: view)
    return view


@router.post(
    "/knowledge-sources/files",
    operation_id="knowledge_sources.upload_file",
    summary="Upload a file",
    status_code=201,
    response_model=SourceFile,
    responses=responses("body-too-large", "incomplete-body"),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "A night in a hotel may cost 140 euros.",
                }
            },
        }
    },
)
async def upload(
    database: Database,
    caller: Admin,
    request: Request,
    *,
    filename: Annotated[SourceFileName, Query(description="Name of the file; its end names the format.")],
) -> SourceFile:
    """Store the body as a file of up to 50 MB. A file that no source names is deleted after a day."""
    require_format(filename, field="filename")
    return await upload_file(database, request, organization_id=caller.organization_id, filename=filename)


@router.get(
    "/knowledge-sources/{source_id}",
    operation_id="knowledge_sources.get",
    summary="Get a source",
    response_model=KnowledgeSourceView,
)
async def get(database: Database, caller: Reader, source_id: str) -> KnowledgeSourceView:
    """Return a source with the outcome of its last run."""
    return source_view(await knowledge_sources.get(database, SourceKey(caller.organization_id, source_id)))


@router.patch(
    "/knowledge-sources/{source_id}",
    operation_id="knowledge_sources.update",
    summary="Change a source",
    response_model=KnowledgeSourceView,
)
async def update(
    database: Database, settings: Settings, caller: Admin, source_id: str, *, body: UpdateKnowledgeSource
) -> KnowledgeSourceView:
    """Change fields of a source. A run that has begun reads it as it was."""
    key, changed_at = SourceKey(caller.organization_id, source_id), now()
    given = body.model_fields_set
    for name in ("label", "config", "enabled"):
        if name in given and getattr(body, name) is None:
            raise invalid_field(name, "must not be null")
    kind = (await knowledge_sources.get(database, key)).kind
    config = None
    if body.config is not None:
        if not isinstance(body.config, CONFIG_OF_KIND[kind]):
            raise invalid_field("config", f"must have the fields of {kind}; create a new source for another kind")
        config = await check_config(
            database, key.organization_id, body.config, allow_private=settings.allow_private_addresses
        )

    async def store(session: MongoSession) -> KnowledgeSource:
        source = await knowledge_sources.get(database, key, session=session)
        source = replace(
            source,
            label=body.label or source.label,
            config=config or source.config,
            cron_expression=body.cron_expression if "cron_expression" in given else source.cron_expression,
            enabled=source.enabled if body.enabled is None else body.enabled,
            updated_at=changed_at,
            updated_by=caller.key_id,
        )
        source = replace(
            source,
            next_run_at=check_schedule(
                source.cron_expression, enabled=source.enabled, source_id=source_id, now=changed_at
            ),
        )
        await _require_mcp_server(database, session, source)
        await knowledge_sources.replace(database, session, source)
        return source

    return source_view(await commit_change(database, store, answer=source_view))


@router.delete(
    "/knowledge-sources/{source_id}",
    operation_id="knowledge_sources.delete",
    summary="Delete a source",
    response_model=MessageResponse,
    responses=responses("source-running"),
)
async def delete(database: Database, source_kinds: SourceKinds, caller: Admin, *, source_id: str) -> MessageResponse:
    """Delete a source with its history. Its entries stay, and belong to no source from then on.

    They are found by their own `type` and no longer by the kind of the source, each once it is indexed again.
    """
    await delete_source(database, SourceKey(caller.organization_id, source_id), source_kinds=source_kinds)
    return MessageResponse(message="Knowledge source deleted successfully; its entries stay")


@router.post(
    "/knowledge-sources/{source_id}/run",
    operation_id="knowledge_sources.run",
    summary="Run a source",
    status_code=202,
    response_model=SourceRunView,
    responses=responses("source-running"),
)
async def run(database: Database, caller: Admin, source_id: str) -> SourceRunView:
    """Let a runner read the source now, whether or not it is enabled. `GET .../runs` shows what becomes of it."""
    key = SourceKey(caller.organization_id, source_id)

    async def store(session: MongoSession) -> SourceRun:
        # A write, so that the source is not deleted at the same time.
        if not await knowledge_sources.touch(database, session, key):
            raise NotFound("knowledge source")
        try:
            return await source_runs.request(
                database, session, key, trigger=RunTrigger.MANUAL, requested_by=caller.key_id
            )
        except SourceIsRunning:
            raise source_running() from None

    return run_view(await commit_change(database, store, answer=run_view))


@router.post(
    "/knowledge-sources/{source_id}/preview",
    operation_id="knowledge_sources.preview",
    summary="Preview a source",
    response_model=SourcePreview,
    responses=responses("runner-unavailable"),
)
async def preview(database: Database, caller: Admin, source_id: str) -> SourcePreview:
    """Read the first items of a source, for at most 10 s, and show what would become entries. Nothing is stored."""
    source = await knowledge_sources.get(database, SourceKey(caller.organization_id, source_id))
    return preview_view(await preview_source(database, source.key, requested_by=caller.key_id))


@router.get(
    "/knowledge-sources/{source_id}/runs",
    operation_id="knowledge_sources.list_runs",
    summary="List runs",
    response_model=SourceRunList,
)
async def list_runs(
    database: Database, caller: Reader, source_id: str, *, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT
) -> SourceRunList:
    """List the runs of a source, newest first. They are kept for 90 days after their end."""
    key = SourceKey(caller.organization_id, source_id)
    await knowledge_sources.get(database, key)
    found, total_count = await source_runs.find_page(database, key, skip=skip, limit=limit)
    return SourceRunList(runs=[run_view(each) for each in found], total_count=total_count)


@router.get(
    "/knowledge-sources/{source_id}/runs/{source_run_id}",
    operation_id="knowledge_sources.get_run",
    summary="Get a run",
    response_model=SourceRunView,
)
async def get_run(database: Database, caller: Reader, source_id: str, *, source_run_id: str) -> SourceRunView:
    """Return a run with its messages."""
    found = await source_runs.find(database, SourceRunKey(caller.organization_id, source_id, source_run_id))
    if found is None:
        raise NotFound("run")
    return run_view(found)


@router.post(
    "/knowledge-sources/{source_id}/runs/{source_run_id}/cancel",
    operation_id="knowledge_sources.cancel_run",
    summary="Cancel a run",
    status_code=202,
    response_model=SourceRunView,
    responses=responses("source-run-ended"),
)
async def cancel_run(database: Database, caller: Admin, source_id: str, *, source_run_id: str) -> SourceRunView:
    """End a run within 5 s. What it has read is kept."""
    key = SourceRunKey(caller.organization_id, source_id, source_run_id)

    async def store(session: MongoSession) -> SourceRun:
        if await source_runs.find(database, key, session=session) is None:
            raise NotFound("run")
        cancelled = await source_runs.request_cancel(database, key, session=session)
        if cancelled is None:
            raise RequestError(409, "source-run-ended", "The run has ended: GET it to see its outcome.")
        return cancelled

    return run_view(await commit_change(database, store, answer=run_view))


async def _require_mcp_server(database: Database, session: MongoSession, source: KnowledgeSource) -> None:
    """Write to the MCP server that a source names, so that it is not deleted at the same time."""
    if source.kind is not SourceKind.MCP:
        return
    key = McpServerKey(source.organization_id, source.config["mcp_server_id"])
    if not await mcp_servers.touch(database, session, key):
        raise invalid_field("config.mcp_server_id", "must be the id of one of your MCP servers")
