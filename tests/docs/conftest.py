"""One running stack for the commands of all pages, in the state in which the tutorial leaves it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import AsyncMongoClient

from kb_local.broker import Broker
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.conftest import KafkaCluster, RunningMongo
from tests.docs.commands import runnable_commands
from tests.docs.shell import run_page

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs/tutorial/first-answer.md"


@dataclass(frozen=True, slots=True)
class DocsStack:
    """Running stack of a reader, with the variables that the docs use."""

    variables: dict[str, str]


@pytest.fixture(scope="module")
async def stack(
    search_node: RunningMongo | SearchNodeProcess,
    broker: KafkaCluster | Broker,
    model_server: ModelServerProcess,
    zygote: Zygote,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Stack]:
    name = f"docs_{uuid4().hex[:12]}"
    async with Stack(
        tmp_path_factory.mktemp("docs"),
        mongo_uri=search_node.uri,
        kafka=broker if isinstance(broker, Broker) else broker.bootstrap,
        models_api_base=model_server.api_base,
        zygote=zygote,
        database=name,
        topic_prefix=f"{name}.",
    ) as running:
        yield running
        async with AsyncMongoClient[dict[str, Any]](running.mongod_uri) as mongo:
            await mongo.drop_database(name)
            await mongo.drop_database(f"{name}_restored")


@pytest.fixture(scope="module")
async def docs_stack(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> DocsStack:
    """Run the tutorial: the other pages begin with its knowledge base."""
    printed_by_make_up = {
        "KB_API": stack.base_url,
        "KB_SEARCH": stack.base_url,
        "ORG": stack.organization_id,
        "KEY": stack.api_key,
    }
    values = await run_page(
        str(TUTORIAL.relative_to(ROOT)),
        runnable_commands(TUTORIAL.read_text()),
        folder=tmp_path_factory.mktemp("tutorial"),
        variables=printed_by_make_up,
        returned=["KB_ID"],
    )
    of_operators = {"KB_MONGO_URI": stack.mongo_uri, "KB_MONGO_DATABASE": stack.database}
    of_upstreams = {"KB_KAFKA": stack.kafka, "KB_KAFKA_TOPIC_PREFIX": stack.topic_prefix}
    of_kb = {"KB_BASE_URL": stack.base_url, "KB_ORGANIZATION": stack.organization_id, "KB_API_KEY": stack.api_key}
    return DocsStack(printed_by_make_up | of_operators | of_upstreams | of_kb | values)
