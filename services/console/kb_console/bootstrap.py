"""Constructs the client of the API and wires it to the pages. Nothing else does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

import httpx
from fastapi import FastAPI
from starlette.middleware import Middleware

from kb_console import error_pages, help_routes, sign_in_routes
from kb_console.administration import (
    api_key_routes,
    audit_routes,
    organization_routes,
    provider_routes,
    tag_routes,
    webhook_routes,
)
from kb_console.agents import agent_routes, prompt_routes
from kb_console.api_transport import connect_to_api
from kb_console.body_limit import BodyLimit
from kb_console.browser_rules import BrowserRules
from kb_console.chat import chat_routes, passage_routes
from kb_console.dependencies import ApiClients
from kb_console.documents import (
    document_choices,
    document_facts,
    document_routes,
    document_without_kb,
    organization_documents,
    upload_states,
)
from kb_console.error_pages import UnexpectedErrors
from kb_console.header_count import HeaderCounts
from kb_console.knowledge import (
    check_in_routes,
    entity_routes,
    entry_list,
    entry_routes,
    graph_routes,
    import_routes,
    mcp_server_routes,
    source_routes,
)
from kb_console.knowledge_bases import (
    create_routes,
    knowledge_base_batches,
    knowledge_base_list,
    overview_routes,
    settings_routes,
)
from kb_console.operations import dead_letter_routes, drift_routes, job_routes, operations_routes
from kb_console.search import search_routes
from kb_console.sessions import Sessions
from kb_console.settings import ConsoleSettings
from kb_console.static_files import static_route
from kb_console.uploads import Uploads
from kb_console.usage import insight_routes, usage_routes
from kb_shared.errors import Misconfigured
from kb_shared.http.dependencies import provide
from kb_shared.http.failed_authentications import FailedAuthentications
from kb_shared.http.health import health_routes
from kb_shared.http.loopback import is_loopback
from kb_shared.http.request_context import RequestContext

ROUTERS: Final = (
    sign_in_routes.router,
    help_routes.router,
    knowledge_base_list.router,
    # Before the routes that take `new` or `batch` for the id of a knowledge base.
    create_routes.router,
    knowledge_base_batches.router,
    overview_routes.router,
    document_routes.router,
    document_facts.router,
    # Before the route that takes `upload-states` for the id of a document.
    upload_states.router,
    document_choices.router,
    organization_documents.router,
    document_without_kb.router,
    search_routes.router,
    operations_routes.router,
    dead_letter_routes.router,
    drift_routes.router,
    job_routes.router,
    insight_routes.router,
    usage_routes.router,
    api_key_routes.router,
    provider_routes.router,
    tag_routes.router,
    webhook_routes.router,
    audit_routes.router,
    organization_routes.router,
    settings_routes.router,
    entry_list.router,
    entry_routes.router,
    import_routes.router,
    check_in_routes.router,
    entity_routes.router,
    graph_routes.router,
    source_routes.router,
    mcp_server_routes.router,
    passage_routes.router,
    chat_routes.router,
    agent_routes.router,
    prompt_routes.router,
)


def check_secret(settings: ConsoleSettings) -> None:
    """Check that the sessions of this process are valid in all replicas, where there may be others.

    Raises:
        Misconfigured: there is no secret.
    """
    if settings.console_secret is not None:
        return
    remedy = "set KB_CONSOLE_SECRET, to the same secret in all replicas of the console"
    if settings.environment == "production":
        raise Misconfigured(f"KB_ENVIRONMENT=production: the sessions of the console have no secret: {remedy}")
    if not is_loopback(settings.http_host):
        raise Misconfigured(
            f"the sessions of the console have no secret, and KB_HTTP_HOST={settings.http_host} can be reached from"
            f" other machines: {remedy}"
        )


def create_app(settings: ConsoleSettings, *, http: httpx.AsyncClient) -> FastAPI:
    """Connect the pages to the connections of a client."""
    app = FastAPI(
        title="Console",
        version=version("kb-shared"),
        middleware=[
            Middleware(RequestContext, body_timeout_s=settings.http_body_timeout_s),
            Middleware(BrowserRules),
            Middleware(HeaderCounts),
            Middleware(UnexpectedErrors),
            Middleware(BodyLimit, max_upload_bytes=settings.console_max_upload_bytes),
        ],
        # It has no API.
        openapi_url=None,
        redirect_slashes=False,
    )
    provide(
        app,
        settings,
        ApiClients(settings.base_url, http),
        Sessions(settings.secrets, is_https=settings.base_url.startswith("https:")),
        Uploads(max_bytes=settings.console_max_upload_bytes),
        FailedAuthentications(
            per_minute_of_address=settings.failed_sign_ins_per_minute_of_address, per_minute_of_key=0
        ),
    )
    error_pages.install(app)
    app.router.routes.extend([*health_routes(_is_ready), static_route()])
    for router in ROUTERS:
        # `include_router` would make each route a second time, at the first request.
        app.router.routes.extend(router.routes)
    return app


async def _is_ready() -> None:
    """Be ready without the API: then pages say that it can't be reached."""


@asynccontextmanager
async def build(settings: ConsoleSettings) -> AsyncIterator[FastAPI]:
    """Construct the app and its client, which is closed on leaving."""
    check_secret(settings)
    async with connect_to_api() as http:
        yield create_app(settings, http=http)
