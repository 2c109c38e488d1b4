"""Constructs the clients of this service and wires them. Nothing else does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from kb_search.insight_routes import insights_router
from kb_search.last_searched import LastSearched
from kb_search.query_log import QueryLog
from kb_search.routes import search_router
from kb_search.search_knowledge_base import KnowledgeBaseSearch
from kb_search.settings import Settings
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedder
from kb_shared.http import application
from kb_shared.mongo import database as mongo
from kb_shared.mongo.database import Database


@asynccontextmanager
async def build(settings: Settings) -> AsyncIterator[FastAPI]:
    """Make the application of `settings`; what it holds open is closed on leaving."""
    database = mongo.connect(settings)
    embedder = create_embedder(database, settings, patience_s=settings.search_patience_s)
    try:
        yield create_app(settings, database=database, embedder=embedder)
    finally:
        await embedder.close()
        await database.client.close()


def create_app(settings: Settings, *, database: Database, embedder: Embedder) -> FastAPI:
    """Wire the routes to clients that exist already."""
    last_searched, query_log = LastSearched(database), QueryLog(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await last_searched.close()
        await query_log.close()

    search = KnowledgeBaseSearch(
        database, embedder, last_searched, query_log, exact_up_to_chunks=settings.search_exact_up_to_chunks
    )
    routers = [search_router(search), insights_router(database)]
    return application.create_app(
        "Knowledge base search", settings, database=database, routers=routers, lifespan=lifespan
    )
