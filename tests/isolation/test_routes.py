"""Every route, called by one organization with everything it could know of another.

That nothing of it changed anything, or shows up in metrics, is what `tenants` asserts when all tests are done.

The matrix below says for each route which scope it needs and what to send; a route that is not in it fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import structlog
from fastapi import FastAPI
from fastapi.routing import APIRoute

from kb_shared.http.documentation import documentation_routes
from kb_shared.mongo.api_keys import Scope
from tests.isolation.conftest import (
    CANARY,
    DOCUMENT_ID,
    ONLY_THE_VICTIMS_TAG,
    PROBER,
    PROVIDER,
    TAG_ID,
    THEIR_ENTITY,
    VICTIM,
    TwoTenants,
)

ORGANIZATION = "/v0/orgs/{organization_id}"
PUBLIC = {"/healthz", "/readyz", "/metrics"} | {route.path for route in documentation_routes()}
WHOAMI = "/v0/whoami"
"""Has no organization in its path, and shows the key of the request only."""
MCP = "/mcp"
"""Has no organization in its path; `tests/integration/mcp` calls its tools with another organization's ids."""
MISSING = {
    "kb_id": "65f000000000000000000000",
    "key_id": "0123456789abcdef",
    "document_id": "none",
    "chunk_id": "none:0123456789abcdef01234567:0",
    "tag_id": "none",
    "name": "none",
    "job_id": "65f000000000000000000001",
    "dead_letter_id": "0123456789abcdef0123456789abcdef",
    "plan_id": "65f000000000000000000008",
    "message_id": "65f000000000000000000007",
    "provider": "none",
    "prompt_id": "65f000000000000000000002",
    "agent_id": "65f000000000000000000003",
    "tool_id": "65f000000000000000000004",
    "run_id": "65f000000000000000000005",
    "thread_id": "65f000000000000000000006",
    "webhook_id": "65f000000000000000000009",
    "delivery_id": "65f00000000000000000000a",
    "entry_id": "65f00000000000000000000b",
    "entity_id": "user:none",
    "node_id": "thing:none",
    "edge_id": "65f00000000000000000000c",
    "check_in_id": "65f00000000000000000000d",
    "source_id": "65f00000000000000000000c",
    "source_run_id": "65f00000000000000000000d",
    "mcp_server_id": "65f00000000000000000000e",
}
DEMO = "demo-extractive"
A_RUN_ABOUT_THEIR_DOCUMENT = {
    "messages": [{"role": "user", "content": "text"}],
    "model": DEMO,
    "document_id": DOCUMENT_ID,
}


@dataclass(frozen=True)
class Route:
    service: str
    method: str
    path: str
    """Below the organization's."""
    scope: Scope
    body: dict[str, Any] | None = None
    """Body of a valid request of the prober."""
    query: dict[str, str] = field(default_factory=dict)
    """Parameters that ask for the victim's data."""
    makes_what_it_names: bool = False
    """True if the route creates the named resource, or names what is no data of an organization: there is no 404."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def names_a_resource(self) -> bool:
        return "{" in self.path and not self.makes_what_it_names


MATRIX = [
    Route("kb-api", "POST", "/knowledge-bases", Scope.WRITE, body={"name": "n"}),
    Route(
        "kb-api",
        "POST",
        "/knowledge-bases:batch",
        Scope.WRITE,
        body={"entries": [{"kb_id": MISSING["kb_id"], "action": "pause"}]},
    ),
    Route("kb-api", "POST", "/knowledge-bases/preview", Scope.READ, body={"text": "mine"}),
    Route("kb-api", "GET", "/knowledge-bases", Scope.READ, query={"name_search": "KB"}),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}", Scope.READ),
    Route("kb-api", "PUT", "/knowledge-bases/{kb_id}", Scope.WRITE, body={"name": "taken over"}),
    Route("kb-api", "DELETE", "/knowledge-bases/{kb_id}", Scope.WRITE),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}/documents", Scope.READ, query={"status": "all"}),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}/documents/{document_id}/explain", Scope.READ),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}/chunks", Scope.READ, query={"document_id": DOCUMENT_ID}),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}/stats", Scope.READ),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/reindex", Scope.WRITE),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/retry-failed", Scope.WRITE),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}/jobs", Scope.READ),
    Route("kb-api", "GET", "/jobs", Scope.READ),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/documents/{document_id}/retry", Scope.WRITE),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/documents/{document_id}/reindex", Scope.WRITE),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}/jobs/{job_id}", Scope.READ),
    Route("kb-api", "DELETE", "/knowledge-bases/{kb_id}/jobs/{job_id}", Scope.WRITE),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/pause", Scope.WRITE),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/resume", Scope.WRITE),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/search-indexes/rebuild", Scope.WRITE),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}/chunks/{chunk_id}", Scope.READ),
    Route("kb-api", "GET", "/knowledge-bases/{kb_id}/metadata-keys", Scope.READ),
    Route("kb-api", "GET", "/documents", Scope.READ, query={"name_search": "canary"}),
    Route(
        "kb-api",
        "POST",
        "/documents:batch",
        Scope.WRITE,
        body={
            "documents": [
                {
                    "document_id": DOCUMENT_ID,
                    "document_name": "n",
                    "tag_ids": [TAG_ID],
                    "upload_date": "2026-01-31T00:00:00Z",
                    "text": "mine",
                }
            ]
        },
    ),
    Route("kb-api", "GET", "/documents/{document_id}", Scope.READ, query={"wait": "searchable", "timeout_s": "0.1"}),
    Route("kb-api", "GET", "/documents/{document_id}/text", Scope.READ),
    Route("kb-api", "GET", "/documents/{document_id}/chunks", Scope.READ, query={"kb_id": "65f000000000000000000000"}),
    Route(
        "kb-api",
        "PUT",
        "/documents/{document_id}",
        Scope.WRITE,
        body={"document_name": "n", "tag_ids": [TAG_ID], "upload_date": "2026-01-31T00:00:00Z", "text": "mine"},
        makes_what_it_names=True,
    ),
    Route("kb-api", "PUT", "/documents/{document_id}/text", Scope.WRITE, makes_what_it_names=True),
    Route("kb-api", "PATCH", "/documents/{document_id}/tags", Scope.WRITE, body={"tag_ids": [TAG_ID]}),
    Route("kb-api", "PATCH", "/documents/{document_id}/metadata", Scope.WRITE, body={"metadata": {}}),
    Route("kb-api", "DELETE", "/documents/{document_id}", Scope.WRITE),
    Route("kb-api", "POST", "/tags", Scope.WRITE, body={"tag_id": TAG_ID, "name": "mine"}),
    Route("kb-api", "GET", "/tags", Scope.READ),
    Route("kb-api", "PUT", "/tags/{tag_id}", Scope.WRITE, body={"name": "mine"}, makes_what_it_names=True),
    # Other routes make a tag with this id in the organization of the prober, too.
    Route("kb-api", "DELETE", "/tags/{tag_id}", Scope.WRITE, makes_what_it_names=True),
    Route("kb-api", "GET", "/pushed-folders/{name}", Scope.WRITE),
    Route(
        "kb-api",
        "PUT",
        "/pushed-folders/{name}",
        Scope.WRITE,
        body={"host": "mine", "path": "/mine"},
        makes_what_it_names=True,
    ),
    Route("kb-api", "GET", "/dead-letters", Scope.READ, query={"reason": "bad-data"}),
    Route("kb-api", "GET", "/dead-letters/counts", Scope.READ),
    Route("kb-api", "POST", "/dead-letters:redrive", Scope.WRITE, body={"reason": "bad-data"}),
    Route("kb-api", "POST", "/dead-letters:discard", Scope.WRITE, body={"reason": "bad-data"}),
    Route("kb-api", "GET", "/dead-letters/{dead_letter_id}", Scope.READ),
    Route("kb-api", "POST", "/dead-letters/{dead_letter_id}/discard", Scope.WRITE),
    Route("kb-api", "POST", "/dead-letters/{dead_letter_id}/redrive", Scope.WRITE),
    Route("kb-api", "GET", "/unsendable-messages", Scope.READ, query={"reason": "too-large"}),
    Route("kb-api", "POST", "/unsendable-messages/{message_id}/redrive", Scope.WRITE),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/reconcile", Scope.WRITE),
    Route("kb-api", "POST", "/knowledge-bases/{kb_id}/documents/{document_id}/reconcile", Scope.WRITE),
    Route("kb-api", "POST", "/reconcile", Scope.WRITE),
    Route("kb-api", "GET", "/reconcile/passes", Scope.READ),
    Route("kb-api", "GET", "/reconcile/plans", Scope.READ),
    Route("kb-api", "GET", "/reconcile/plans/{plan_id}", Scope.READ),
    Route("kb-api", "POST", "/reconcile/plans/{plan_id}/apply", Scope.WRITE),
    Route("kb-api", "GET", "/usage", Scope.READ, query={"group_by": "kb,model,operation,day"}),
    Route("kb-api", "GET", "/budget", Scope.READ),
    Route("kb-api", "PUT", "/budget", Scope.ADMIN, body={"soft": 1, "hard": 2}),
    Route("kb-api", "POST", "/api-keys", Scope.ADMIN, body={"name": "n", "scopes": ["read"]}),
    Route("kb-api", "GET", "/api-keys", Scope.ADMIN),
    Route("kb-api", "DELETE", "/api-keys/{key_id}", Scope.ADMIN),
    Route("kb-api", "GET", "/llm-providers", Scope.ADMIN),
    # An address that is refused: the prober's own provider must not come to be.
    Route(
        "kb-api",
        "PUT",
        "/llm-providers/{provider}",
        Scope.ADMIN,
        body={"api_key": "sk-prober", "api_base": "https://127.0.0.1"},
        makes_what_it_names=True,
    ),
    Route("kb-api", "GET", "/llm-providers/{provider}", Scope.ADMIN),
    Route("kb-api", "DELETE", "/llm-providers/{provider}", Scope.ADMIN),
    Route("kb-api", "POST", "/llm-providers/{provider}/test", Scope.ADMIN, body={}, makes_what_it_names=True),
    Route("kb-api", "POST", "/llm-providers/{provider}/pause", Scope.ADMIN, makes_what_it_names=True),
    Route("kb-api", "POST", "/llm-providers/{provider}/resume", Scope.ADMIN, makes_what_it_names=True),
    Route("kb-api", "GET", "/operations", Scope.READ),
    Route("kb-api", "GET", "/operations/counts", Scope.READ),
    Route("kb-api", "GET", "/embedding-models", Scope.READ),
    Route("kb-api", "GET", "/audit", Scope.ADMIN, query={"outcome": "succeeded"}),
    Route("kb-api", "GET", "/events", Scope.READ, query={"types": "document.rejected.v1"}),
    Route("kb-api", "POST", "/webhooks", Scope.ADMIN, body={"url": "https://8.8.8.8/hook", "enabled": False}),
    Route("kb-api", "GET", "/webhooks", Scope.ADMIN),
    Route("kb-api", "GET", "/webhooks/{webhook_id}", Scope.ADMIN),
    Route("kb-api", "PUT", "/webhooks/{webhook_id}", Scope.ADMIN, body={"description": "taken over"}),
    Route("kb-api", "DELETE", "/webhooks/{webhook_id}", Scope.ADMIN),
    Route("kb-api", "POST", "/webhooks/{webhook_id}/rotate-secret", Scope.ADMIN),
    Route("kb-api", "POST", "/webhooks/{webhook_id}/test", Scope.ADMIN),
    Route("kb-api", "GET", "/webhooks/{webhook_id}/deliveries", Scope.ADMIN, query={"state": "dead"}),
    Route("kb-api", "POST", "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", Scope.ADMIN),
    Route("kb-api", "GET", "/settings", Scope.READ),
    Route("kb-api", "PUT", "/settings", Scope.ADMIN, body={"strict_metadata": False}),
    # Without its confirmation: the prober must not be deleted.
    Route("kb-api", "DELETE", "", Scope.ADMIN),
    Route("kb-api", "GET", "/deletion", Scope.ADMIN),
    Route("search", "POST", "/knowledge-bases/{kb_id}/search", Scope.SEARCH, body={"query": "text"}),
    Route(
        "search",
        "POST",
        "/knowledge-bases/{kb_id}/search/explain",
        Scope.SEARCH,
        body={"query": "text", "document_id": DOCUMENT_ID},
    ),
    Route("search", "POST", "/knowledge-bases/search", Scope.SEARCH, body={"query": "text"}),
    Route("search", "GET", "/knowledge/search", Scope.SEARCH, query={"q": "text"}),
    Route("search", "POST", "/knowledge:retrieve", Scope.SEARCH, body={"query": "text", "entity_id": "user:alice"}),
    Route("search", "GET", "/insights/queries", Scope.READ, query={"by": "slow"}),
    Route("search", "GET", "/insights/citations", Scope.READ, query={"by": "never_cited"}),
    Route("search", "GET", "/insights/searches", Scope.READ, query={"group_by": "day,origin,kb"}),
    Route("search", "POST", "/runs/{run_id}/cancel", Scope.SEARCH),
    Route("search", "PUT", "/runs/{run_id}/feedback", Scope.SEARCH, body={"rating": "up"}),
    Route("search", "GET", "/insights/knowledge-bases/{kb_id}/documents", Scope.READ, query={"by": "never_cited"}),
    Route(
        "search",
        "POST",
        "/runs",
        Scope.SEARCH,
        body={"messages": [{"role": "user", "content": "text"}], "model": DEMO},
    ),
    Route("search", "GET", "/knowledge-bases/{kb_id}/tool", Scope.READ),
    Route("search", "POST", "/runs", Scope.SEARCH, body=A_RUN_ABOUT_THEIR_DOCUMENT),
    Route("search", "GET", "/runs", Scope.READ),
    Route("search", "GET", "/runs/{run_id}", Scope.READ),
    Route("search", "POST", "/threads", Scope.SEARCH, body={"title": "mine"}),
    Route("search", "GET", "/chat-models", Scope.READ),
    Route("search", "GET", "/threads", Scope.READ),
    Route("search", "GET", "/threads/{thread_id}", Scope.READ),
    Route("search", "DELETE", "/threads/{thread_id}", Scope.WRITE),
    Route("search", "POST", "/prompts", Scope.WRITE, body={"name": "n", "content": "c", "model": DEMO}),
    Route("search", "GET", "/prompts", Scope.READ),
    Route("search", "GET", "/prompts/{prompt_id}", Scope.READ),
    Route("search", "PUT", "/prompts/{prompt_id}", Scope.WRITE, body={"name": "taken over"}),
    Route("search", "DELETE", "/prompts/{prompt_id}", Scope.WRITE),
    Route("search", "POST", "/agents", Scope.WRITE, body={"name": "n", "model": DEMO}),
    Route("search", "GET", "/agents", Scope.READ),
    Route("search", "GET", "/agents/{agent_id}", Scope.READ),
    Route("search", "PUT", "/agents/{agent_id}", Scope.WRITE, body={"name": "taken over"}),
    Route("search", "DELETE", "/agents/{agent_id}", Scope.WRITE),
    Route(
        "search",
        "POST",
        "/agents/{agent_id}/knowledge-base-tools",
        Scope.WRITE,
        body={"kb_id": "65f000000000000000000000"},
    ),
    Route(
        "search",
        "PATCH",
        "/agents/{agent_id}/knowledge-base-tools",
        Scope.WRITE,
        body={"tool_id": "65f000000000000000000004", "tool_name": "taken_over"},
    ),
    Route(
        "search",
        "PATCH",
        "/agents/{agent_id}/knowledge-base-tools/{tool_id}",
        Scope.WRITE,
        body={"tool_name": "taken_over"},
    ),
    Route("search", "DELETE", "/agents/{agent_id}/tools/{tool_id}", Scope.WRITE),
    Route("search", "GET", "/agents/{agent_id}/available-knowledge-bases", Scope.READ),
    Route("knowledge", "POST", "/knowledge-entries", Scope.WRITE, body={"title": "mine", "content": "mine"}),
    Route("knowledge", "GET", "/knowledge-entries", Scope.READ, query={"q": "canary", "tag": TAG_ID}),
    Route("knowledge", "GET", "/knowledge-entries/{entry_id}", Scope.READ),
    Route("knowledge", "PATCH", "/knowledge-entries/{entry_id}", Scope.WRITE, body={"title": "taken over"}),
    Route("knowledge", "DELETE", "/knowledge-entries/{entry_id}", Scope.ADMIN),
    Route("knowledge", "GET", "/knowledge-entries/{entry_id}/chunks", Scope.READ),
    Route("knowledge", "POST", "/knowledge-entries/{entry_id}/retry", Scope.WRITE),
    Route(
        "knowledge",
        "POST",
        "/knowledge-sources",
        Scope.ADMIN,
        body={"label": "mine", "kind": "url_crawl", "config": {"url": "http://127.0.0.1:9/"}},
    ),
    Route("knowledge", "GET", "/knowledge-sources", Scope.READ),
    Route("knowledge", "POST", "/knowledge-sources/files", Scope.ADMIN, query={"filename": "mine.txt"}),
    Route("knowledge", "GET", "/knowledge-sources/{source_id}", Scope.READ),
    Route("knowledge", "PATCH", "/knowledge-sources/{source_id}", Scope.ADMIN, body={"label": "taken over"}),
    Route("knowledge", "DELETE", "/knowledge-sources/{source_id}", Scope.ADMIN),
    Route("knowledge", "POST", "/knowledge-sources/{source_id}/run", Scope.ADMIN),
    Route("knowledge", "POST", "/knowledge-sources/{source_id}/preview", Scope.ADMIN),
    Route("knowledge", "GET", "/knowledge-sources/{source_id}/runs", Scope.READ),
    Route("knowledge", "GET", "/knowledge-sources/{source_id}/runs/{source_run_id}", Scope.READ),
    Route("knowledge", "POST", "/knowledge-sources/{source_id}/runs/{source_run_id}/cancel", Scope.ADMIN),
    Route("knowledge", "POST", "/mcp-servers", Scope.ADMIN, body={"label": "mine", "url": "http://127.0.0.1:9/mcp"}),
    Route("knowledge", "GET", "/mcp-servers", Scope.READ),
    Route("knowledge", "GET", "/mcp-servers/{mcp_server_id}", Scope.READ),
    Route("knowledge", "PATCH", "/mcp-servers/{mcp_server_id}", Scope.ADMIN, body={"label": "taken over"}),
    Route("knowledge", "DELETE", "/mcp-servers/{mcp_server_id}", Scope.ADMIN),
    Route(
        "knowledge",
        "PUT",
        "/entities/{entity_id}",
        Scope.WRITE,
        body={"entity_type": "user", "properties": {"team": "mine"}},
        makes_what_it_names=True,
    ),
    Route("knowledge", "GET", "/entities", Scope.READ, query={"entity_type": "user"}),
    Route("knowledge", "GET", "/entities/{entity_id}", Scope.READ),
    Route("knowledge", "DELETE", "/entities/{entity_id}", Scope.WRITE),
    Route(
        "knowledge",
        "PUT",
        "/graph/nodes/{node_id}",
        Scope.WRITE,
        body={"node_type": "thing", "label": "mine"},
        makes_what_it_names=True,
    ),
    Route("knowledge", "GET", "/graph/nodes", Scope.READ, query={"node_type": "thing"}),
    Route("knowledge", "GET", "/graph/nodes/{node_id}", Scope.READ),
    Route("knowledge", "DELETE", "/graph/nodes/{node_id}", Scope.WRITE),
    Route(
        "knowledge",
        "PUT",
        "/graph/edges",
        Scope.WRITE,
        body={"source_id": "thing:mine", "edge_type": "USES", "target_id": "thing:mine"},
    ),
    Route("knowledge", "GET", "/graph/edges", Scope.READ, query={"source_id": THEIR_ENTITY}),
    Route("knowledge", "GET", "/graph/edges/{edge_id}", Scope.READ),
    Route("knowledge", "DELETE", "/graph/edges/{edge_id}", Scope.WRITE),
    Route("knowledge", "GET", "/graph/neighbourhood", Scope.READ, query={"entity_id": THEIR_ENTITY, "depth": "2"}),
    Route("knowledge", "POST", "/knowledge:structure", Scope.WRITE, body={"text": "mine", "model": DEMO}),
    Route("knowledge", "GET", "/check-ins", Scope.READ),
    Route("knowledge", "GET", "/check-ins/{check_in_id}", Scope.READ),
    Route("knowledge", "POST", "/check-ins/{check_in_id}/apply", Scope.WRITE),
    Route(
        "knowledge", "POST", "/knowledge:import", Scope.WRITE, body={"metadata": {THEIR_ENTITY: {"entity_type": "x"}}}
    ),
]

every_route = pytest.mark.parametrize("route", MATRIX, ids=str)
routes_of_resources = pytest.mark.parametrize("route", [each for each in MATRIX if each.names_a_resource], ids=str)


def routes_of(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path template of all that `app` answers to."""
    for route in app.routes:
        path = getattr(route, "path", None)
        if path is None or path in {*PUBLIC, MCP, f"{MCP}/", WHOAMI}:
            continue
        methods = route.methods or () if isinstance(route, APIRoute) else ("ANY",)
        yield from ((method, path) for method in methods)


async def send(
    tenants: TwoTenants, route: Route, *, organization_id: str, key: str | None, ids: dict[str, str]
) -> httpx.Response:
    path = (ORGANIZATION + route.path).format(organization_id=organization_id, **ids)
    return await tenants.clients[route.service].request(
        route.method,
        path,
        params=route.query,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        json=route.body,
    )


def without_request_id(response: httpx.Response) -> tuple[int, dict[str, Any]]:
    return response.status_code, {**response.json(), "request_id": None}


@pytest.fixture
async def prober_key(tenants: TwoTenants) -> str:
    return await tenants.key(PROBER, Scope.ADMIN)


@pytest.fixture
def victims(tenants: TwoTenants) -> dict[str, str]:
    return {
        "kb_id": tenants.victim.kb.kb_id,
        "key_id": tenants.victim_key.split("_")[1],
        "document_id": DOCUMENT_ID,
        "tag_id": TAG_ID,
        "name": "handbook",
        "job_id": tenants.victim_job,
        "dead_letter_id": tenants.victim_letter,
        "message_id": tenants.victim_message,
        "plan_id": tenants.victim_plan,
        "provider": PROVIDER,
        **tenants.victims_writings,
    }


@pytest.mark.parametrize("service", ["kb-api", "search", "knowledge"])
def test_every_route_is_in_the_matrix(tenants: TwoTenants, service: str) -> None:
    known = {(route.method, ORGANIZATION + route.path) for route in MATRIX if route.service == service}
    assert set(routes_of(tenants.apps[service])) == known


@every_route
async def test_another_organizations_path_is_the_same_404_as_one_that_does_not_exist(
    tenants: TwoTenants, prober_key: str, victims: dict[str, str], route: Route
) -> None:
    theirs = await send(tenants, route, organization_id=VICTIM, key=prober_key, ids=victims)
    nonexistent = await send(tenants, route, organization_id="absent", key=prober_key, ids=victims)
    assert theirs.status_code == 404
    assert without_request_id(theirs) == without_request_id(nonexistent)


@routes_of_resources
async def test_another_organizations_resource_is_the_same_404_as_one_that_does_not_exist(
    tenants: TwoTenants, prober_key: str, victims: dict[str, str], route: Route
) -> None:
    theirs = await send(tenants, route, organization_id=PROBER, key=prober_key, ids=victims)
    nonexistent = await send(tenants, route, organization_id=PROBER, key=prober_key, ids=MISSING)
    assert theirs.status_code == 404
    assert without_request_id(theirs) == without_request_id(nonexistent)


@every_route
async def test_without_a_key_it_is_401(tenants: TwoTenants, victims: dict[str, str], route: Route) -> None:
    assert (await send(tenants, route, organization_id=VICTIM, key=None, ids=victims)).status_code == 401


@every_route
async def test_w17_a_key_without_the_scope_is_403_in_its_own_organization(
    tenants: TwoTenants, victims: dict[str, str], route: Route
) -> None:
    others = [scope for scope in Scope if scope not in (route.scope, Scope.ADMIN)]
    key = await tenants.key(PROBER, *others)
    assert (await send(tenants, route, organization_id=PROBER, key=key, ids=victims)).status_code == 403


@every_route
async def test_nothing_of_the_victim_shows_up_in_answers_or_logs(
    tenants: TwoTenants, prober_key: str, victims: dict[str, str], route: Route
) -> None:
    with structlog.testing.capture_logs() as logged:
        answers = [
            await send(tenants, route, organization_id=organization_id, key=prober_key, ids=ids)
            for organization_id in (PROBER, VICTIM)
            for ids in (victims, {**victims, "kb_id": tenants.prober.kb.kb_id})
            if (route.method, organization_id) != ("DELETE", PROBER) or ids is victims
        ]
    for answer in answers:
        assert CANARY not in answer.text
        assert victims["key_id"] not in answer.text
    assert CANARY not in str(logged)


async def test_filters_and_tags_of_a_request_reach_no_other_organization(tenants: TwoTenants, prober_key: str) -> None:
    headers = {"Authorization": f"Bearer {prober_key}"}
    base = f"/v0/orgs/{PROBER}"
    search = await tenants.clients["search"].post(
        f"{base}/knowledge-bases/{tenants.prober.kb.kb_id}/search",
        json={"query": "text", "document_ids": [DOCUMENT_ID], "tag_ids": [TAG_ID]},
        headers=headers,
    )
    assert (search.status_code, search.json()["results"]) == (200, [])
    create = await tenants.clients["kb-api"].post(
        f"{base}/knowledge-bases", json={"name": "n", "tag_ids": [ONLY_THE_VICTIMS_TAG]}, headers=headers
    )
    assert create.json()["type"] == "unknown-tag"


@pytest.mark.parametrize("action", ["pause", "resume", "reindex", "retry_failed"])
async def test_their_knowledge_base_in_a_batch_is_the_same_404_as_one_that_does_not_exist(
    tenants: TwoTenants, prober_key: str, action: str
) -> None:
    kb_ids = (tenants.victim.kb.kb_id, MISSING["kb_id"])
    answer = await tenants.clients["kb-api"].post(
        f"/v0/orgs/{PROBER}/knowledge-bases:batch",
        json={"entries": [{"kb_id": kb_id, "action": action} for kb_id in kb_ids]},
        headers={"Authorization": f"Bearer {prober_key}"},
    )
    theirs, nonexistent = answer.json()["outcomes"]
    assert (theirs["problem"]["status"], theirs["job_id"]) == (404, None)
    assert theirs["problem"] == nonexistent["problem"]


async def test_a_run_about_their_document_is_the_same_404_as_about_one_that_does_not_exist(
    tenants: TwoTenants, prober_key: str
) -> None:
    run = A_RUN_ABOUT_THEIR_DOCUMENT
    theirs, nonexistent = [
        await tenants.clients["search"].post(
            f"/v0/orgs/{PROBER}/runs",
            json={**run, "document_id": document_id},
            headers={"Authorization": f"Bearer {prober_key}"},
        )
        for document_id in (DOCUMENT_ID, MISSING["document_id"])
    ]
    assert theirs.status_code == 404
    assert without_request_id(theirs) == without_request_id(nonexistent)
