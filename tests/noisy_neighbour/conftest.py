from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final
from uuid import uuid4

import pytest

from kb_local.broker import Broker
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.conftest import KafkaCluster, RunningMongo
from tests.e2e.system import QUICK
from tests.noisy_neighbour.attack_check import AttackCheck
from tests.noisy_neighbour.measured_tenant import MeasuredTenant, start_measured_tenant
from tests.noisy_neighbour.neighbourhood import Neighbourhood, create_organization

MAX_CONNECTIONS: Final = 150
"""Connection limit of each service, so that an attack can open more without running out of descriptors itself."""
SILENT_CONNECTIONS: Final = 180
"""More than that, by less than a quarter, which may be open for a moment."""
SERVICES = ("kb_api", "kb_search", "kb_indexer")


@pytest.fixture(scope="package")
async def neighbourhood(
    search_node: RunningMongo | SearchNodeProcess,
    broker: KafkaCluster | Broker,
    model_server: ModelServerProcess,
    zygote: Zygote,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Neighbourhood]:
    """A system with all that it takes to publish and to search, for all tests of this folder."""
    name = f"neighbours_{uuid4().hex[:12]}"
    async with Stack(
        tmp_path_factory.mktemp("neighbours"),
        services=SERVICES,
        env={
            **QUICK,
            "KB_HTTP_MAX_CONNECTIONS": str(MAX_CONNECTIONS),
            # The attacker's provider is on this machine.
            "KB_ALLOW_PRIVATE_ADDRESSES": "true",
            # Longer than any wait of a test: an answer of a chat model that ends before does so for another reason.
            "KB_CHAT_TIMEOUT_S": "120",
            "KB_CHAT_PATIENCE_S": "0.5",
        },
        mongo_uri=search_node.uri,
        kafka=broker if isinstance(broker, Broker) else broker.bootstrap,
        models_api_base=model_server.api_base,
        zygote=zygote,
        database=name,
        topic_prefix=f"{name}.",
    ) as stack:
        yield Neighbourhood(
            stack, await create_organization(stack, "measured"), await create_organization(stack, "attacker")
        )


@pytest.fixture(scope="package")
async def measured(neighbourhood: Neighbourhood) -> AsyncIterator[MeasuredTenant]:
    async with start_measured_tenant(neighbourhood.measured) as measured:
        yield measured


@pytest.fixture(params=[pytest.param(False, id="short"), pytest.param(True, id="long", marks=pytest.mark.long)])
async def attack_check(
    neighbourhood: Neighbourhood, measured: MeasuredTenant, request: pytest.FixtureRequest
) -> AttackCheck:
    """Return the check of an attack, in a short and in a long form, each with its own attacker."""
    # What it used up of its limits, and what its provider did, is no matter of the next one.
    attacker = await create_organization(neighbourhood.stack, f"attacker-{uuid4().hex[:8]}")
    return AttackCheck(replace(neighbourhood, attacker=attacker), measured, is_long=request.param)
