"""The paths of all services, with a value in each place of a parameter."""

import re
from collections.abc import Iterator
from functools import cache

import httpx
from fastapi import FastAPI
from starlette.routing import Route

import kb_api.bootstrap
import kb_console.bootstrap
import kb_knowledge.bootstrap
import kb_search.bootstrap
from kb_api.settings import ApiSettings
from kb_console.settings import ConsoleSettings
from kb_knowledge.settings import KnowledgeSettings
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo import database as mongo


@cache
def all_paths() -> tuple[str, ...]:
    """Return the paths of all services behind the proxy, and `/mcp`, which has no place in an OpenAPI document."""
    api_settings, search_settings, knowledge_settings = ApiSettings(), SearchSettings(), KnowledgeSettings()
    database = mongo.connect(api_settings)
    embedder = create_embedder(database, api_settings)
    api = kb_api.bootstrap.create_kb_api(api_settings, database=database, embedder=embedder)
    apps = (
        kb_api.bootstrap.create_app(api),
        kb_search.bootstrap.create_app(
            search_settings, database=database, embedder=embedder, chat=create_chat(database, search_settings)
        ),
        kb_knowledge.bootstrap.create_app(
            knowledge_settings, database=database, chat=create_chat(database, knowledge_settings)
        ),
    )
    console = kb_console.bootstrap.create_app(ConsoleSettings(), http=httpx.AsyncClient())
    of_console = {path for path in _paths_of_routes(console) if path.startswith("/console")}
    templates = {path for app in apps for path in app.openapi()["paths"]} | {"/mcp"} | of_console
    return tuple(sorted(re.sub(r"\{\w+(:path)?\}", "x1", path) for path in templates))


def _paths_of_routes(app: FastAPI) -> Iterator[str]:
    yield from (route.path for route in app.routes if isinstance(route, Route))
