"""Constructs the clients of this service and wires them. Nothing else does."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from fastapi import FastAPI
from starlette.routing import Route

from kb_search import chat_model_routes, insight_routes, routes, tool_routes
from kb_search.authoring import agent_routes, prompt_routes
from kb_search.authoring.authoring_checks import AuthoringChecks
from kb_search.indexes import COLLECTIONS
from kb_search.knowledge import routes as knowledge_routes
from kb_search.knowledge.retrieve_knowledge import KnowledgeRetrieval
from kb_search.knowledge.search_entries import EntrySearch
from kb_search.log_queries import QueryLog
from kb_search.mcp.endpoint import McpEndpoint
from kb_search.mcp.management_tools import Management
from kb_search.mcp.tools import McpTools
from kb_search.retrieval.explain_search import SearchExplainer
from kb_search.retrieval.last_searched import LastSearched
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch
from kb_search.runs import routes as run_routes
from kb_search.runs.conduct_run import Conductor
from kb_search.runs.prepare_run import Preparation
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import Chat, create_chat
from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedder
from kb_shared.http import application
from kb_shared.http.dependencies import provide
from kb_shared.http.request_limits import RequestLimit, RequestLimits, limit_of_administration
from kb_shared.mongo import database as mongo
from kb_shared.mongo import schema_version, search_indexes
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.schema import create_indexes
from kb_shared.service import process

ROUTERS: Final = (
    routes.router,
    tool_routes.router,
    chat_model_routes.router,
    insight_routes.router,
    knowledge_routes.router,
    run_routes.router,
    prompt_routes.router,
    agent_routes.router,
)


@asynccontextmanager
async def build(settings: SearchSettings, stop: asyncio.Event) -> AsyncIterator[FastAPI]:
    """Make the application of `settings`; what it holds open is closed on leaving, which waits for `stop`."""
    database = mongo.connect(settings)
    embedder = create_embedder(database, settings, patience_s=settings.search_patience_s)
    chat = create_chat(database, settings)
    # Searches are answered meanwhile: without an index they are slower, not wrong.
    preparing = asyncio.create_task(_prepare(database, stop))
    # If it fails, the server stops, and the failure is raised below.
    preparing.add_done_callback(lambda _: stop.set() if preparing.cancelled() or preparing.exception() else None)
    try:
        yield create_app(settings, database=database, embedder=embedder, chat=chat)
    finally:
        stop.set()
        await asyncio.wait({preparing})
        await chat.close()
        await embedder.close()
        await database.client.close()
        preparing.result()


def create_app(settings: SearchSettings, *, database: Database, embedder: Embedder, chat: Chat) -> FastAPI:
    """Connect the routes to clients that exist already."""
    kept = timedelta(days=settings.insights_kept_days)
    last_searched, query_log = LastSearched(database), QueryLog(database, kept=kept)
    fair_queue = FairQueue(max_active=settings.http_max_active_of_organization)
    limits = _create_limits(settings, database)
    search = KnowledgeBaseSearch(
        database,
        embedder,
        last_searched=last_searched,
        query_log=query_log,
        exact_up_to_chunks=settings.search_exact_up_to_chunks,
        vector_within_s=settings.search_vector_wait_s,
    )
    entry_search, retrieval = EntrySearch(database, search), KnowledgeRetrieval(database, search)
    conductor = Conductor(
        database,
        search,
        retrieval=retrieval,
        chat=chat,
        fair_queue=fair_queue,
        max_passage_tokens=settings.run_passage_tokens,
        citations_kept=kept,
    )
    management = Management(kb_api_url=settings.api_url, knowledge_url=settings.knowledge_url)
    mcp = McpEndpoint(
        McpTools(
            database,
            search,
            limits=limits,
            fair_queue=fair_queue,
            max_passage_tokens=settings.run_passage_tokens,
            entry_search=entry_search,
            management=management,
        )
    )
    preparation = Preparation(database, chat, settings)
    app = application.create_app(
        "Knowledge base search",
        settings,
        database=database,
        routers=ROUTERS,
        # With a slash, too: clients are configured by hand.
        endpoints=[Route(path, mcp, methods=["POST"]) for path in ("/mcp", "/mcp/")],
        ready=partial(_why_not_ready, database),
        lifespan=partial(_running, mcp, closing=(management, conductor, last_searched, query_log)),
        fair_queue=fair_queue,
    )
    provide(
        app,
        settings,
        chat.catalogue,
        limits,
        search,
        entry_search,
        retrieval,
        SearchExplainer(database, search, embedder),
        preparation,
        conductor,
        AuthoringChecks(database, preparation, settings),
    )
    return app


class _Closable(Protocol):
    async def close(self) -> None: ...


@asynccontextmanager
async def _running(mcp: McpEndpoint, _: FastAPI, *, closing: Iterable[_Closable]) -> AsyncIterator[None]:
    """Answer over MCP while the application serves, and then close what works in the background, in this order."""
    async with mcp.running():
        yield
    for part in closing:
        await part.close()


def _create_limits(settings: SearchSettings, database: Database) -> RequestLimits:
    return RequestLimits(
        database,
        {
            "search": RequestLimit(settings.searches_per_minute_of_key, settings.searches_per_minute_of_organization),
            "run": RequestLimit(settings.runs_per_minute_of_key, settings.runs_per_minute_of_organization),
            "administration": limit_of_administration(settings),
        },
    )


async def _prepare(database: Database, stop: asyncio.Event) -> None:
    """Check the version of the data, and create the indexes.

    Raises:
        VersionTooOld: this code can't work with the stored data.
    """

    async def prepare() -> None:
        with mongo_errors():
            await schema_version.check(database)
            await create_indexes(database, COLLECTIONS)

    await process.retry_until_done(stop, prepare)


async def _why_not_ready(database: Database) -> str | None:
    # Not ready on data that this code can't work with, also before the process has ended because of it.
    await schema_version.check(database)
    return await search_indexes.explain_unavailability(database)
