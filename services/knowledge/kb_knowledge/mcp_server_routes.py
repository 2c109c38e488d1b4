"""Routes of MCP servers, which sources read resources from."""

from collections.abc import Mapping
from dataclasses import replace

from kb_contracts.api.mcp_servers import CreateMcpServer, McpServerList, McpServerView, UpdateMcpServer
from kb_contracts.api.model import MessageResponse
from kb_knowledge.check_source import require_address
from kb_knowledge.dependencies import Admin, Database, McpHeaderKeys, Reader, Settings
from kb_knowledge.source_response import mcp_server_view
from kb_knowledge.sources.crawl_scope import origin_of
from kb_knowledge.store import knowledge_sources, mcp_servers
from kb_knowledge.store.keys import McpServerKey
from kb_knowledge.store.mcp_servers import McpServer
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.changes import commit_change
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.stored_time import now

router = organization_router("mcp servers")


@router.get("/mcp-servers", operation_id="mcp_servers.list", summary="List MCP servers", response_model=McpServerList)
async def list_all(database: Database, caller: Reader, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> McpServerList:
    """List the MCP servers of the organization, newest first, without the values of their headers."""
    found, total_count = await mcp_servers.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return McpServerList(mcp_servers=[mcp_server_view(server) for server in found], total_count=total_count)


@router.post(
    "/mcp-servers",
    operation_id="mcp_servers.create",
    summary="Add an MCP server",
    status_code=201,
    response_model=McpServerView,
    responses=responses("provider-keys-not-available", "quota-exceeded"),
)
async def create(
    database: Database, settings: Settings, keys: McpHeaderKeys, caller: Admin, *, body: CreateMcpServer
) -> McpServerView:
    """Add an MCP server that sources can read from. Its headers are stored encrypted and never returned."""
    await require_address(body.url, field="url", allow_private=settings.allow_private_addresses)
    await require_quota(
        lambda: mcp_servers.count(database, caller.organization_id),
        settings.max_mcp_servers,
        things="MCP servers",
        setting="KB_MAX_MCP_SERVERS",
    )
    key, created_at = McpServerKey(caller.organization_id, mcp_servers.new_mcp_server_id()), now()
    server = McpServer(
        mcp_server_id=key.mcp_server_id,
        organization_id=key.organization_id,
        label=body.label,
        url=body.url,
        header_names=(),
        headers=None,
        created_at=created_at,
        created_by=caller.key_id,
        updated_at=created_at,
        updated_by=caller.key_id,
    )
    server = _with_headers(server, body.headers, keys)

    async def store(session: MongoSession) -> None:
        await mcp_servers.put(database, session, server)

    view = mcp_server_view(server)
    await commit_change(database, store, answer=lambda _: view)
    return view


@router.get(
    "/mcp-servers/{mcp_server_id}",
    operation_id="mcp_servers.get",
    summary="Get an MCP server",
    response_model=McpServerView,
)
async def get(database: Database, caller: Reader, mcp_server_id: str) -> McpServerView:
    """Return an MCP server, without the values of its headers."""
    return mcp_server_view(await mcp_servers.get(database, McpServerKey(caller.organization_id, mcp_server_id)))


@router.patch(
    "/mcp-servers/{mcp_server_id}",
    operation_id="mcp_servers.update",
    summary="Change an MCP server",
    response_model=McpServerView,
    responses=responses("provider-keys-not-available"),
)
async def update(
    database: Database,
    settings: Settings,
    keys: McpHeaderKeys,
    caller: Admin,
    mcp_server_id: str,
    *,
    body: UpdateMcpServer,
) -> McpServerView:
    """Change fields of an MCP server. `headers` replaces all of them."""
    key, changed_at = McpServerKey(caller.organization_id, mcp_server_id), now()
    for name in ("label", "url", "headers"):
        if name in body.model_fields_set and getattr(body, name) is None:
            raise invalid_field(name, "must not be null")
    await mcp_servers.get(database, key)
    if body.url is not None:
        await require_address(body.url, field="url", allow_private=settings.allow_private_addresses)

    async def store(session: MongoSession) -> McpServer:
        server = await mcp_servers.get(database, key, session=session)
        url = body.url or server.url
        if body.headers is None and server.header_names and origin_of(url) != origin_of(server.url):
            # A secret must not go to a server that it was not meant for.
            raise invalid_field("headers", "must be given together with the address of another server")
        server = replace(server, label=body.label or server.label, url=url, updated_at=changed_at)
        server = replace(server, updated_by=caller.key_id)
        if body.headers is not None:
            server = _with_headers(server, body.headers, keys)
        await mcp_servers.put(database, session, server)
        return server

    return mcp_server_view(await commit_change(database, store, answer=mcp_server_view))


@router.delete(
    "/mcp-servers/{mcp_server_id}",
    operation_id="mcp_servers.delete",
    summary="Delete an MCP server",
    response_model=MessageResponse,
    responses=responses("mcp-server-in-use"),
)
async def delete(database: Database, caller: Admin, mcp_server_id: str) -> MessageResponse:
    """Delete an MCP server that no source reads from."""
    key = McpServerKey(caller.organization_id, mcp_server_id)

    async def store(session: MongoSession) -> None:
        if not await mcp_servers.delete(database, session, key):
            raise NotFound("MCP server")
        if await knowledge_sources.names_mcp_server(database, session, key):
            raise RequestError(409, "mcp-server-in-use", "Sources read from this MCP server: delete them first.")

    await commit_change(database, store)
    return MessageResponse(message="MCP server deleted successfully")


def _with_headers(server: McpServer, headers: Mapping[str, str], keys: McpHeaderKeys) -> McpServer:
    if not headers:
        return replace(server, header_names=(), headers=None)
    if keys.key_ring is None:
        raise RequestError(
            503,
            "provider-keys-not-available",
            "This deployment stores no secrets of organizations; ask your operator to set KB_PROVIDER_KEYS.",
        )
    sealed = mcp_servers.seal_headers(keys.key_ring, server.key, headers)
    return replace(server, header_names=tuple(headers), headers=sealed)
