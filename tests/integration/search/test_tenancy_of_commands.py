"""Whatever people ask, MongoDB is asked about their organization only."""

from collections.abc import Iterator
from typing import Any

import pytest

from kb_shared.mongo import api_keys, outbox
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from tests.integration.indexer.support import CommandLog
from tests.integration.indexer.tenancy import TENANT_DATA, organizations_named, queries_without_organization
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create

WITHOUT_A_COLLECTION = {"getMore", "endSessions", "killCursors", "commitTransaction", "abortTransaction", "hello"}
NOT_BY_ORGANIZATION = {api_keys.NAME, outbox.NAME}
"""A key says which organization it is; in the outbox are messages for Kafka, which this service only adds to."""
ABOVE = f"/v0/orgs/{ORGANIZATION}"


@pytest.fixture
async def library(knowledge: Knowledge, search_database: Database) -> Knowledge:
    document = DocumentToIndex("d", ["a kayak", "a canoe", "a raft"], tag_ids=["t1"], metadata={"year": 2025})
    await knowledge.index(document)
    foreign = await create(search_database, "other")
    await foreign.index(document)
    return knowledge


def collections(commands: list[Any]) -> Iterator[str]:
    for command in commands:
        kind, collection = next(iter(command.items()))
        if kind not in WITHOUT_A_COLLECTION:
            yield collection


def check(command_log: CommandLog, knowledge: Knowledge) -> None:
    """All commands since the log was cleared."""
    asked = command_log.commands
    known = TENANT_DATA | NOT_BY_ORGANIZATION | {knowledge.chunks.collection.name}
    assert set(collections(asked)) <= known, "a collection without a rule for this check"
    assert not [name for command in asked for name in queries_without_organization(command)]
    named = [name for command in asked for name in organizations_named(command)]
    assert named
    assert set(named) <= {ORGANIZATION}


async def test_every_command_of_a_search_is_about_the_organization_of_its_key(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog
) -> None:
    filters: list[dict[str, Any]] = [
        {},
        {"document_ids": ["d"], "metadata_filter": {"$or": [{"year": 2025}, {"document_name": "no"}]}},
        {"tag_ids": ["t1"], "min_score": 0.0},
    ]
    command_log.clear()
    for mode in ("vector", "text", "hybrid"):
        for number, criteria in enumerate(filters):
            body = {"query": f"kayak {number}", "mode": mode, "coalesce_neighbors": 1, **criteria}
            if mode == "text":
                body.pop("min_score", None)
            for path in (library.path, f"{ABOVE}/knowledge-bases/search"):
                answer = await watched.post(path, body)
                assert answer.json()["results"], answer.text
    check(command_log, library)
    assert {command["aggregate"] for command in command_log.commands if "aggregate" in command} >= {
        library.chunks.collection.name
    }


async def test_every_command_of_a_run_and_of_what_is_read_of_it_is_about_the_organization_of_its_key(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog, search_database: Database
) -> None:
    await search_database[api_keys.NAME].update_one({}, {"$set": {"scopes": [Scope.ADMIN]}})
    headers = {"Authorization": f"Bearer {watched.key}"}
    command_log.clear()

    async def ask(method: str, path: str, body: Any = None) -> Any:
        answer = await watched.http.request(method, f"{ABOVE}{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    kb_id = library.kb.kb_id
    thread = (await ask("POST", "/threads", {"title": "t"}))["thread_id"]
    question = [{"role": "user", "content": "What is a kayak?"}]
    body = {"messages": question, "kb_ids": [kb_id], "model": "demo-extractive", "thread_id": thread}
    run = await ask("POST", "/runs", body)
    assert run["tool_calls"]
    for path in (
        *("/runs", f"/runs/{run['run_id']}", "/threads", f"/threads/{thread}", "/prompts", "/agents"),
        *("/insights/queries", f"/insights/queries?kb_id={kb_id}&by=slow"),
        *(f"/insights/knowledge-bases/{kb_id}/documents?by={by}" for by in ("most_cited", "never_cited")),
    ):
        await ask("GET", path)
    await ask("DELETE", f"/threads/{thread}")
    check(command_log, library)
