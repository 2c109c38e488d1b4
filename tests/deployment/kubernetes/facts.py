"""Facts about the services that manifests have to agree with, read from the code."""

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Final

import httpx
from fastapi import FastAPI
from starlette.routing import Route

from kb_api.bootstrap import create_app as create_kb_api_app
from kb_api.bootstrap import create_kb_api
from kb_api.settings import ApiSettings
from kb_console.bootstrap import create_app as create_console_app
from kb_console.settings import ConsoleSettings
from kb_indexer.settings import IndexerSettings
from kb_knowledge.bootstrap import create_app as create_knowledge_app
from kb_knowledge.runner.settings import RunnerSettings
from kb_knowledge.settings import KnowledgeSettings
from kb_reconciler.backup.deployments import SourceSettings
from kb_reconciler.settings import ReconcilerSettings
from kb_search.bootstrap import create_app as create_search_app
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.http import server
from kb_shared.http.health import health_routes
from kb_shared.kafka import client_shutdown, commits, partition_assignment, producer, session
from kb_shared.messaging import outbox_relay
from kb_shared.mongo import database as mongo
from kb_shared.settings import CommonSettings, EmbeddingSettings, HttpSettings, ServerSettings


@dataclass(frozen=True, slots=True)
class PodFacts:
    """Facts about what runs in a pod."""

    settings: type[ServerSettings]
    image: str
    module: str | None = None
    """Program that it runs in place of that of its image."""

    @property
    def uses_kafka(self) -> bool:
        return self.settings.uses_kafka

    @property
    def uses_mongodb(self) -> bool:
        return self.settings.uses_mongodb

    @property
    def calls_providers(self) -> bool:
        return issubclass(self.settings, EmbeddingSettings) and not self.reads_sources

    @property
    def reads_sources(self) -> bool:
        """Return whether it connects to web sites and MCP servers that users name."""
        return self.settings is RunnerSettings

    @property
    def serves_callers(self) -> bool:
        """Return whether callers from outside send requests to it, beside those for health and metrics."""
        return issubclass(self.settings, HttpSettings | ConsoleSettings)


SERVICES: Final = {
    "kb-api": PodFacts(ApiSettings, "kb-api"),
    "kb-indexer": PodFacts(IndexerSettings, "kb-indexer"),
    "kb-search": PodFacts(SearchSettings, "kb-search"),
    "kb-knowledge": PodFacts(KnowledgeSettings, "kb-knowledge"),
    "kb-knowledge-runner": PodFacts(RunnerSettings, "kb-knowledge", "kb_knowledge.runner"),
    "kb-console": PodFacts(ConsoleSettings, "kb-console"),
    "kb-reconciler": PodFacts(ReconcilerSettings, "kb-reconciler"),
}
COMMANDS: Final = {
    "kb-set-up": PodFacts(CommonSettings, "kb-admin"),
    "kb-backup": PodFacts(SourceSettings, "kb-admin"),
}
PODS: Final = SERVICES | COMMANDS
"""By the name of the workload, which is also the value of the name label of its pods."""


async def _ready() -> None:
    return None


HEALTH_PATHS: Final = frozenset(route.path for route in health_routes(_ready) if isinstance(route, Route))
LIVENESS: Final = "/healthz"
READINESS: Final = "/readyz"
METRICS: Final = "/metrics"
assert {LIVENESS, READINESS, METRICS} == HEALTH_PATHS


@cache
def paths_of(service: str) -> frozenset[str]:
    """Return the templates of all paths that a service answers."""
    match service:
        case "kb-api":
            settings = ApiSettings()
            database = mongo.connect(settings)
            embedder = create_embedder(database, settings)
            return _paths(create_kb_api_app(create_kb_api(settings, database=database, embedder=embedder)))
        case "kb-search":
            search_settings = SearchSettings()
            database = mongo.connect(search_settings)
            return _paths(
                create_search_app(
                    search_settings,
                    database=database,
                    embedder=create_embedder(database, search_settings),
                    chat=create_chat(database, search_settings),
                )
            )
        case "kb-knowledge":
            knowledge_settings = KnowledgeSettings()
            database = mongo.connect(knowledge_settings)
            chat = create_chat(database, knowledge_settings)
            return _paths(create_knowledge_app(knowledge_settings, database=database, chat=chat))
        case "kb-console":
            return _paths(create_console_app(ConsoleSettings(), http=httpx.AsyncClient()))
        case _:
            return HEALTH_PATHS


def _paths(app: FastAPI) -> frozenset[str]:
    # Included routers are known by the OpenAPI document only.
    return frozenset(app.openapi()["paths"]) | {route.path for route in app.routes if isinstance(route, Route)}


@cache
def stop_seconds(service: str) -> float:
    """Return the time limit of the stop of a service after SIGTERM, as the sum of the limits of its steps."""
    if service == "kb-search":
        return SearchSettings().run_max_seconds + server.GRACE_S
    if service in {"kb-console", "kb-knowledge-runner"}:
        # Runs of the runner are released, and other replicas continue them.
        return float(server.GRACE_S)
    last_batch_s = outbox_relay._LAST_BATCH_S
    producer_s = (
        inspect.signature(producer.Producer).parameters["stop_timeout_s"].default
        + producer.CLOSE_WITHIN_S
        + client_shutdown.ABANDON_WITHIN_S
        + 2 * client_shutdown.CANCEL_EVERY_S
    )
    if service == "kb-api":
        return float(max(server.GRACE_S, last_batch_s + producer_s))
    if service == "kb-reconciler":
        return float(producer_s + server.GRACE_S)
    consumer_s = (
        session.LONGEST_DRAIN_S
        + commits.COMMIT_TIMEOUT_S
        # Of the task that commits, and of the work that did not end.
        + 2 * partition_assignment.CANCEL_GRACE_S
        # Of the client, and of its connections.
        + 2 * session.LEAVE_TIMEOUT_S
    )
    if service == "kb-knowledge":
        return float(max(server.GRACE_S, consumer_s + producer_s))
    return float(consumer_s + last_batch_s + producer_s + server.GRACE_S)
