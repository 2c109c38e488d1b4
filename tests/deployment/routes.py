"""The paths of the OpenAPI documents of all services, with a value in each place of a parameter."""

import re
from functools import cache

import kb_api.bootstrap
import kb_knowledge.bootstrap
import kb_search.bootstrap
from kb_api.settings import ApiSettings
from kb_knowledge.settings import KnowledgeSettings
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo import database as mongo


@cache
def all_paths() -> tuple[str, ...]:
    """Return the paths of kb-api, search and knowledge, and `/mcp`, which has no place in an OpenAPI document."""
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
    templates = {path for app in apps for path in app.openapi()["paths"]} | {"/mcp"}
    return tuple(sorted(re.sub(r"\{\w+\}", "x1", path) for path in templates))
