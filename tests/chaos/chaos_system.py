"""The servers that runs of chaos share, and the system that each run starts for itself."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from kb_local.cpu_share import limit_cpu
from kb_local.server import Server
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.chaos.cluster_faults import Clusters
from tests.chaos.curated_knowledge import SETTINGS
from tests.chaos.faults import RUNNER, indexer_names
from tests.chaos.plan import FaultPlan
from tests.chaos.quiescence import SLOW_S
from tests.e2e.system import QUICK, QUICK_ON_KAFKA, SystemUnderTest, system


@dataclass(frozen=True, slots=True)
class ChaosServers:
    """Servers that runs share; each run has its own database, broker, search node and services."""

    mongo_uri: str
    models_api_base: str
    zygote: Zygote
    clusters: Clusters = field(default_factory=Clusters)
    """With brokers each run has topics of its own on them instead of a broker of its own."""
    mongods: Sequence[Server] = ()
    cpu_share: float | None = None
    """Share of a CPU that each indexer and each mongod may use; None: no limit."""


def limit_cpu_shares(servers: ChaosServers, stack: Stack) -> AbstractAsyncContextManager[None]:
    """Hold indexers and mongods to their share of a CPU, if they have one."""
    if servers.cpu_share is None:
        return nullcontext()

    def slow_ones() -> list[Server]:
        return [*servers.mongods, *(each for name, each in stack.services.items() if name.startswith("kb_indexer"))]

    return limit_cpu(servers.cpu_share, slow_ones)


def _timing_settings(servers: ChaosServers) -> dict[str, str]:
    """Return how soon leases and sessions end; with little CPU a process needs the time that it has in production."""
    if servers.cpu_share is not None:
        return {"KB_KAFKA_FETCH_MAX_WAIT_MS": "500"}
    return QUICK if servers.clusters.brokers is None else QUICK_ON_KAFKA


@asynccontextmanager
async def chaos_system(
    servers: ChaosServers, folder: Path, plan: FaultPlan, *, reconciler: bool
) -> AsyncIterator[SystemUnderTest]:
    name = f"chaos_{plan.seed}_{uuid4().hex[:12]}"
    brokers = servers.clusters.brokers
    services = [
        "kb_api",
        *indexer_names(plan.replicas),
        "kb_search",
        "kb_knowledge",
        RUNNER,
        *(["kb_reconciler:1", "kb_reconciler:2"] if reconciler else []),
    ]
    async with (
        Stack(
            folder,
            services=services,
            env={
                **_timing_settings(servers),
                **SETTINGS,
                # Frequent passes, of both kinds: they must disturb nothing.
                "KB_RECONCILE_INTERVAL_S": f"{1 / (servers.cpu_share or 1):g}",
                "KB_RECONCILE_FULL_INTERVAL_S": f"{5 / (servers.cpu_share or 1):g}",
                "KB_RECONCILE_GRACE_S": f"{1 / (servers.cpu_share or 1):g}",
                "KB_MAX_KNOWLEDGE_BASES": "100",
            },
            lag_ms=plan.lag_ms,
            mongo_uri=servers.mongo_uri,
            kafka=None if brokers is None else brokers.bootstrap(),
            models_api_base=servers.models_api_base,
            zygote=servers.zygote,
            database=name,
            topic_prefix="" if brokers is None else f"{name}.",
        ) as stack,
        system(stack, http_timeout_s=SLOW_S) as opened,
    ):
        yield opened
        for database in {name, stack.database}:
            await opened.database.client.drop_database(database)
    if brokers is not None:
        await brokers.delete_topics_of(f"{name}.")
