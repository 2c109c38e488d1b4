"""Keys limited to KBs: what each route lets them do.

Each route of the matrix needs a decision here: without one, or with another one than the code has, a test fails.
"""

from typing import Any, Final

import pytest

from kb_search.runs.limited_callers import owner_if_limited
from kb_shared.http.authentication import Caller
from kb_shared.mongo.api_keys import Scope
from tests.isolation.conftest import CANARY, DOCUMENT_ID, VICTIM, TwoTenants
from tests.isolation.test_routes import A_RUN_ABOUT_THEIR_DOCUMENT, MATRIX, MISSING, Route, send

SCOPES: Final = (Scope.READ, Scope.SEARCH, Scope.WRITE)
OPEN: Final = {
    "GET /knowledge-bases": "lists the KBs of the key",
    "POST /knowledge-bases:batch": "acts on the KBs of the key; others are 404 in their outcomes",
    "GET /documents/{document_id}/chunks": "chunks in a KB of the key, which the query names",
    "GET /documents/{document_id}": "documents in a KB of the key, with their state in these KBs",
    "GET /events": "events of KBs of the key",
    "GET /usage": "charges for KBs of the key",
    "POST /knowledge-bases/search": "searches the KBs of the key",
    "GET /knowledge/search": "entries, if the KB of entries is one of the key",
    "GET /insights/queries": "searches that were only in KBs of the key",
    "POST /runs": "runs that search only KBs of the key",
    "GET /runs": "runs of the key itself",
    "GET /runs/{run_id}": "runs of the key itself",
    "PUT /runs/{run_id}/feedback": "runs of the key itself",
    "POST /runs/{run_id}/cancel": "runs of the key itself",
    "POST /threads": "conversations of the key itself",
    "GET /threads": "conversations of the key itself",
    "GET /threads/{thread_id}": "conversations of the key itself",
}
"""Routes that keep to the KBs of the key, with what they show."""
BY_PATH: Final = {
    "GET /knowledge-bases/{kb_id}",
    "PUT /knowledge-bases/{kb_id}",
    "DELETE /knowledge-bases/{kb_id}",
    "GET /knowledge-bases/{kb_id}/documents",
    "GET /knowledge-bases/{kb_id}/chunks",
    "GET /knowledge-bases/{kb_id}/chunks/{chunk_id}",
    "GET /knowledge-bases/{kb_id}/metadata-keys",
    "GET /knowledge-bases/{kb_id}/stats",
    "POST /knowledge-bases/{kb_id}/reindex",
    "POST /knowledge-bases/{kb_id}/retry-failed",
    "POST /knowledge-bases/{kb_id}/documents/{document_id}/retry",
    "POST /knowledge-bases/{kb_id}/documents/{document_id}/reindex",
    "GET /knowledge-bases/{kb_id}/jobs",
    "GET /knowledge-bases/{kb_id}/tool",
    "GET /knowledge-bases/{kb_id}/jobs/{job_id}",
    "DELETE /knowledge-bases/{kb_id}/jobs/{job_id}",
    "POST /knowledge-bases/{kb_id}/pause",
    "POST /knowledge-bases/{kb_id}/resume",
    "POST /knowledge-bases/{kb_id}/search-indexes/rebuild",
    "POST /knowledge-bases/{kb_id}/reconcile",
    "POST /knowledge-bases/{kb_id}/search",
    "POST /knowledge-bases/{kb_id}/search/explain",
    "GET /insights/knowledge-bases/{kb_id}/documents",
}
"""Routes about the KB of their path, which show nothing of another."""
CLOSED: Final = {
    "POST /knowledge-bases",
    "POST /knowledge-bases/preview",
    "GET /knowledge-bases/{kb_id}/documents/{document_id}/explain",
    "POST /knowledge-bases/{kb_id}/documents/{document_id}/reconcile",
    "POST /knowledge:retrieve",
    "GET /insights/searches",
    "GET /insights/citations",
    "GET /documents",
    "POST /documents:batch",
    "GET /documents/{document_id}/text",
    "PUT /documents/{document_id}",
    "PUT /documents/{document_id}/text",
    "PATCH /documents/{document_id}/tags",
    "PATCH /documents/{document_id}/metadata",
    "DELETE /documents/{document_id}",
    "POST /tags",
    "GET /tags",
    "GET /pushed-folders/{name}",
    "PUT /pushed-folders/{name}",
    "PUT /tags/{tag_id}",
    "DELETE /tags/{tag_id}",
    "GET /dead-letters",
    "GET /dead-letters/counts",
    "POST /dead-letters:redrive",
    "POST /dead-letters:discard",
    "GET /dead-letters/{dead_letter_id}",
    "POST /dead-letters/{dead_letter_id}/discard",
    "POST /dead-letters/{dead_letter_id}/redrive",
    "GET /unsendable-messages",
    "POST /unsendable-messages/{message_id}/redrive",
    "POST /reconcile",
    "GET /reconcile/passes",
    "GET /reconcile/plans",
    "GET /reconcile/plans/{plan_id}",
    "POST /reconcile/plans/{plan_id}/apply",
    "GET /budget",
    "PUT /budget",
    "POST /api-keys",
    "GET /api-keys",
    "DELETE /api-keys/{key_id}",
    "GET /llm-providers",
    "PUT /llm-providers/{provider}",
    "GET /llm-providers/{provider}",
    "DELETE /llm-providers/{provider}",
    "POST /llm-providers/{provider}/test",
    "POST /llm-providers/{provider}/pause",
    "POST /llm-providers/{provider}/resume",
    "GET /operations",
    "GET /operations/counts",
    "GET /jobs",
    "GET /embedding-models",
    "GET /chat-models",
    "GET /audit",
    "POST /webhooks",
    "GET /webhooks",
    "GET /webhooks/{webhook_id}",
    "PUT /webhooks/{webhook_id}",
    "DELETE /webhooks/{webhook_id}",
    "POST /webhooks/{webhook_id}/rotate-secret",
    "POST /webhooks/{webhook_id}/test",
    "GET /webhooks/{webhook_id}/deliveries",
    "POST /webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    "GET /settings",
    "PUT /settings",
    "DELETE ",
    "GET /deletion",
    "DELETE /threads/{thread_id}",
    "POST /prompts",
    "GET /prompts",
    "GET /prompts/{prompt_id}",
    "PUT /prompts/{prompt_id}",
    "DELETE /prompts/{prompt_id}",
    "POST /agents",
    "GET /agents",
    "GET /agents/{agent_id}",
    "PUT /agents/{agent_id}",
    "DELETE /agents/{agent_id}",
    "POST /agents/{agent_id}/knowledge-base-tools",
    "PATCH /agents/{agent_id}/knowledge-base-tools",
    "PATCH /agents/{agent_id}/knowledge-base-tools/{tool_id}",
    "DELETE /agents/{agent_id}/tools/{tool_id}",
    "GET /agents/{agent_id}/available-knowledge-bases",
    "POST /knowledge-entries",
    "GET /knowledge-entries",
    "GET /knowledge-entries/{entry_id}",
    "PATCH /knowledge-entries/{entry_id}",
    "DELETE /knowledge-entries/{entry_id}",
    "GET /knowledge-entries/{entry_id}/chunks",
    "POST /knowledge-entries/{entry_id}/retry",
    "POST /knowledge-sources",
    "GET /knowledge-sources",
    "POST /knowledge-sources/files",
    "GET /knowledge-sources/{source_id}",
    "PATCH /knowledge-sources/{source_id}",
    "DELETE /knowledge-sources/{source_id}",
    "POST /knowledge-sources/{source_id}/run",
    "POST /knowledge-sources/{source_id}/preview",
    "GET /knowledge-sources/{source_id}/runs",
    "GET /knowledge-sources/{source_id}/runs/{source_run_id}",
    "POST /knowledge-sources/{source_id}/runs/{source_run_id}/cancel",
    "POST /mcp-servers",
    "GET /mcp-servers",
    "GET /mcp-servers/{mcp_server_id}",
    "PATCH /mcp-servers/{mcp_server_id}",
    "DELETE /mcp-servers/{mcp_server_id}",
    "PUT /entities/{entity_id}",
    "GET /entities",
    "GET /entities/{entity_id}",
    "DELETE /entities/{entity_id}",
    "PUT /graph/nodes/{node_id}",
    "GET /graph/nodes",
    "GET /graph/nodes/{node_id}",
    "DELETE /graph/nodes/{node_id}",
    "PUT /graph/edges",
    "GET /graph/edges",
    "GET /graph/edges/{edge_id}",
    "DELETE /graph/edges/{edge_id}",
    "GET /graph/neighbourhood",
    "POST /knowledge:import",
    "POST /knowledge:structure",
    "GET /check-ins",
    "GET /check-ins/{check_in_id}",
    "POST /check-ins/{check_in_id}/apply",
}
"""Routes about the whole organization, which are 403."""

every_route = pytest.mark.parametrize("route", MATRIX, ids=str)


@pytest.fixture
def victims(tenants: TwoTenants) -> dict[str, str]:
    return {**MISSING, "kb_id": tenants.victim.kb.kb_id, "document_id": DOCUMENT_ID, **tenants.victims_writings}


@pytest.fixture
async def others(tenants: TwoTenants) -> str:
    """Key of the victim that is limited to another KB than its only one."""
    return await tenants.key(VICTIM, *SCOPES, kb_ids=(MISSING["kb_id"],))


@pytest.fixture
async def its_own(tenants: TwoTenants) -> str:
    """Key of the victim that is limited to its KB."""
    return await tenants.key(VICTIM, *SCOPES, kb_ids=(tenants.victim.kb.kb_id,))


def test_each_route_has_one_decision() -> None:
    assert len(OPEN) + len(BY_PATH) + len(CLOSED) == len({*OPEN, *BY_PATH, *CLOSED})
    assert {*OPEN, *BY_PATH, *CLOSED} == {str(route) for route in MATRIX}


@every_route
async def test_a_limited_key_sees_and_changes_nothing_outside_of_its_knowledge_bases(
    tenants: TwoTenants, others: str, victims: dict[str, str], route: Route
) -> None:
    answer = await send(tenants, route, organization_id=VICTIM, key=others, ids=victims)
    assert CANARY not in answer.text
    if str(route) in CLOSED:
        expected = "missing-scope" if route.scope is Scope.ADMIN else "key-limited"
        assert (answer.status_code, answer.json()["type"]) == (403, expected)
    elif str(route) in BY_PATH:
        missing = {**victims, "kb_id": MISSING["kb_id"]}
        assert answer.status_code == 404
        unknown = await send(tenants, route, organization_id=VICTIM, key=others, ids=missing)
        if unknown.status_code == 404:
            assert {**answer.json(), "request_id": 0} == {**unknown.json(), "request_id": 0}
    elif route.names_a_resource:
        assert answer.status_code == 404


async def ask(tenants: TwoTenants, key: str, method: str, path: str, body: Any = None) -> Any:
    route = next(each for each in MATRIX if (each.method, each.path) == (method, path))
    answer = await tenants.clients[route.service].request(
        method,
        f"/v0/orgs/{VICTIM}{path.format(document_id=DOCUMENT_ID, kb_id=tenants.victim.kb.kb_id)}",
        json=body,
        headers={"Authorization": f"Bearer {key}"},
    )
    return answer.json()


async def test_a_limited_key_sees_what_belongs_to_its_knowledge_bases(tenants: TwoTenants, its_own: str) -> None:
    kb_id = tenants.victim.kb.kb_id
    listed = await ask(tenants, its_own, "GET", "/knowledge-bases")
    assert ([kb["kb_id"] for kb in listed["knowledge_bases"]], listed["total_count"]) == ([kb_id], 1)
    document = await ask(tenants, its_own, "GET", "/documents/{document_id}")
    assert [each["kb_id"] for each in document["knowledge_bases"]] == [kb_id]
    for path, body in (
        ("/knowledge-bases/search", {"query": CANARY}),
        ("/knowledge-bases/search", {"query": CANARY, "kb_ids": [kb_id, MISSING["kb_id"]]}),
        ("/knowledge-bases/{kb_id}/search", {"query": CANARY}),
    ):
        found = await ask(tenants, its_own, "POST", path, body)
        assert [hit["document_id"] for hit in found["results"]] == [DOCUMENT_ID]


async def test_a_search_over_all_knowledge_bases_finds_those_of_the_key_only(tenants: TwoTenants, others: str) -> None:
    everywhere = await ask(tenants, others, "POST", "/knowledge-bases/search", {"query": CANARY})
    assert everywhere["results"] == []
    named = {"query": "text", "kb_ids": [tenants.victim.kb.kb_id]}
    assert (await ask(tenants, others, "POST", "/knowledge-bases/search", named))["type"] == "not-found"


async def test_a_limited_key_acts_on_its_knowledge_bases_only(tenants: TwoTenants, its_own: str, others: str) -> None:
    entries = [{"kb_id": kb_id, "action": "retry_failed"} for kb_id in (tenants.victim.kb.kb_id, MISSING["kb_id"])]
    answer = await ask(tenants, its_own, "POST", "/knowledge-bases:batch", {"entries": entries})
    assert [outcome["problem"] is None for outcome in answer["outcomes"]] == [True, False]
    answer = await ask(tenants, others, "POST", "/knowledge-bases:batch", {"entries": entries})
    theirs, missing = answer["outcomes"]
    assert theirs["problem"] == missing["problem"]
    assert theirs["problem"]["type"] == "not-found"


@pytest.mark.parametrize("name", ["prompt_id", "agent_id", "kb_id", "kb_ids", "document_id", "thread_id"])
async def test_a_run_of_a_limited_key_reaches_no_other_knowledge_base(
    tenants: TwoTenants, others: str, name: str
) -> None:
    question = {"messages": A_RUN_ABOUT_THEIR_DOCUMENT["messages"]}
    kb_id = tenants.victim.kb.kb_id
    named = {"kb_id": kb_id, "kb_ids": [kb_id], "document_id": DOCUMENT_ID, **tenants.victims_writings}[name]
    model = {} if name in {"prompt_id", "agent_id"} else {"model": A_RUN_ABOUT_THEIR_DOCUMENT["model"]}
    answer = await ask(tenants, others, "POST", "/runs", {**question, **model, name: named})
    assert (answer["status"], answer["type"]) == (404, "not-found"), answer


async def test_a_limited_key_can_not_add_tags_to_its_knowledge_base(tenants: TwoTenants, its_own: str) -> None:
    answer = await ask(tenants, its_own, "PUT", "/knowledge-bases/{kb_id}", {"tag_ids": ["tag-2"]})
    assert answer["type"] == "key-limited"


def test_runs_of_a_limited_key_are_its_own() -> None:
    assert owner_if_limited(Caller(VICTIM, "k", frozenset(SCOPES))) is None
    assert owner_if_limited(Caller(VICTIM, "k", frozenset(SCOPES), frozenset())) == "k"


async def test_a_version_that_knows_no_limits_allows_a_limited_key_nothing(tenants: TwoTenants, its_own: str) -> None:
    row = await tenants.database["api_keys"].find_one({"_id": its_own.split("_")[1]})
    assert row is not None
    assert row["scopes"] == []


@pytest.mark.parametrize(
    ("fields", "status", "problem"),
    [
        ({"scopes": ["admin"]}, 422, "validation-error"),
        ({"kb_ids": []}, 422, "validation-error"),
        ({"kb_ids": [MISSING["kb_id"]]}, 404, "not-found"),
        ({"kb_ids": ["x"]}, 422, "validation-error"),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(
    tenants: TwoTenants, fields: dict[str, Any], status: int, problem: str
) -> None:
    body = {"name": "n", "scopes": ["read"], "kb_ids": [tenants.victim.kb.kb_id], **fields}
    answer = await ask(tenants, tenants.victim_key, "POST", "/api-keys", body)
    assert (answer["status"], answer["type"]) == (status, problem)


async def test_a_limited_key_is_created_and_shows_its_limit(tenants: TwoTenants) -> None:
    kb_id = tenants.victim.kb.kb_id
    created = await ask(
        tenants, tenants.victim_key, "POST", "/api-keys", {"name": "n", "scopes": ["read"], "kb_ids": [kb_id]}
    )
    assert (created["scopes"], created["kb_ids"]) == (["read"], [kb_id])
    listed = await ask(tenants, created["api_key"], "GET", "/knowledge-bases")
    assert [kb["kb_id"] for kb in listed["knowledge_bases"]] == [kb_id]
