"""The deployment that the clients are driven against, and what they need of us."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from pymongo.operations import SearchIndexModel

from tests.clients.embedding import DIMENSIONS

ROOT = Path(__file__).parents[2]
PROJECT_PYTHON = os.environ.get("KB_PYTHON", str(ROOT / ".venv" / "bin" / "python"))
DEADLINE_S = 60.0
TEXTS = ["apples are red", "bananas are yellow", "the red fire engine", "a yellow submarine"]

# None of them may call home from a test.
os.environ |= {"HAYSTACK_TELEMETRY_ENABLED": "False", "MEM0_TELEMETRY": "False", "ANONYMIZED_TELEMETRY": "False"}


@dataclass(frozen=True, slots=True)
class Deployment:
    uri: str
    knowledge_base: dict[str, str]


@pytest.fixture(scope="session")
def deployment() -> Iterator[Deployment]:
    """A mongod behind the search node, with a knowledge base; in a process with the project's own Python."""
    process = subprocess.Popen(
        [PROJECT_PYTHON, "-m", "tests.clients.deployment"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Deployment(**json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait(DEADLINE_S)
        process.stdout.close()


@pytest.fixture(scope="session")
def mongo(deployment: Deployment) -> Iterator[MongoClient[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](deployment.uri) as client:
        yield client


@pytest.fixture
def database_name(mongo: MongoClient[dict[str, Any]]) -> Iterator[str]:
    name = f"clients_{uuid4().hex[:12]}"
    yield name
    mongo.drop_database(name)


def eventually(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds: what was written is searchable only after a while."""
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.01)


def create_ready_indexes(
    collection: Any, *, text_path: str, vector_path: str = "embedding", filters: tuple[str, ...] = ()
) -> None:
    """Create the indexes `vectors` and `texts`, for clients that expect theirs to be there."""
    vector = {"type": "vector", "path": vector_path, "numDimensions": DIMENSIONS, "similarity": "cosine"}
    fields = [vector, *({"type": "filter", "path": path} for path in filters)]
    texts = {"mappings": {"dynamic": False, "fields": {text_path: {"type": "string"}}}}
    collection.create_search_indexes(
        [
            SearchIndexModel({"fields": fields}, "vectors", type="vectorSearch"),
            SearchIndexModel(texts, "texts", type="search"),
        ]
    )
    eventually(lambda: all(one["status"] == "READY" for one in collection.list_search_indexes()))
