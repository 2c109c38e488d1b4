"""Answers the console's calls as the API does, with the examples of the contracts, which tests change."""

import asyncio
import copy
import json
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any, Final

import httpx
from pydantic import BaseModel

from kb_contracts.api.document_batches import BatchOutcomes
from kb_contracts.api.document_lists import DocumentPage
from kb_contracts.api.document_texts import DocumentText
from kb_contracts.api.documents import AcceptedChange, DocumentView
from kb_contracts.api.embedding_models import EmbeddingModelList
from kb_contracts.api.insights import SearchInsights
from kb_contracts.api.jobs import JobList, Reindexing, RequestedDocument, Retrying
from kb_contracts.api.knowledge_bases import KnowledgeBaseList, KnowledgeBaseStats, KnowledgeBaseView
from kb_contracts.api.memberships import ChunkList, DocumentList, ExplanationView
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.previews import KnowledgeBasePreview
from kb_contracts.api.search import SearchResponse, SearchSeveralResponse
from kb_contracts.api.search_explanations import SearchExplanationView
from kb_contracts.api.tags import TagList, TagView
from kb_contracts.api.tool_schemas import ToolSchemaView
from kb_contracts.api.whoami import WhoAmI
from tests.unit.console import fake_runs, operator_pages
from tests.unit.console.knowledge_answers import KNOWLEDGE_ANSWERS

KB_ID: Final = "65f1c2a3b4d5e6f708192a3b"
DOCUMENT_ID: Final = "handbook"
_KB: Final = f"/knowledge-bases/{KB_ID}"
_DOCUMENT: Final = f"{_KB}/documents/{DOCUMENT_ID}"
_MODELS: Final[dict[str, type[BaseModel]]] = {
    "GET /v0/whoami": WhoAmI,
    "GET /knowledge-bases": KnowledgeBaseList,
    "POST /knowledge-bases": KnowledgeBaseView,
    "POST /knowledge-bases/preview": KnowledgeBasePreview,
    f"GET {_KB}": KnowledgeBaseView,
    f"DELETE {_KB}": MessageResponse,
    f"GET {_KB}/stats": KnowledgeBaseStats,
    f"GET {_KB}/jobs": JobList,
    f"GET {_KB}/documents": DocumentList,
    f"GET {_KB}/chunks": ChunkList,
    f"GET /documents/{DOCUMENT_ID}/text": DocumentText,
    f"GET {_DOCUMENT}/explain": ExplanationView,
    f"POST {_DOCUMENT}/retry": RequestedDocument,
    f"POST {_DOCUMENT}/reindex": RequestedDocument,
    f"POST {_KB}/search": SearchResponse,
    "POST /knowledge-bases/search": SearchSeveralResponse,
    f"POST {_KB}/search/explain": SearchExplanationView,
    "GET /insights/searches": SearchInsights,
    f"GET {_KB}/tool": ToolSchemaView,
    f"POST {_KB}/pause": KnowledgeBaseView,
    f"POST {_KB}/resume": KnowledgeBaseView,
    f"POST {_KB}/reindex": Reindexing,
    f"POST {_KB}/retry-failed": Retrying,
    "GET /documents": DocumentPage,
    f"GET /documents/{DOCUMENT_ID}": DocumentView,
    "POST /documents:batch": BatchOutcomes,
    "GET /tags": TagList,
    "POST /tags": TagView,
    "GET /embedding-models": EmbeddingModelList,
    **operator_pages.MODELS,
    **KNOWLEDGE_ANSWERS,
}

_CREATING: Final = frozenset({"POST /knowledge-bases", "POST /knowledge-entries"})


def example_of(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_config.get("json_schema_extra")
    assert isinstance(schema, dict)
    examples: Any = schema["examples"]
    example: dict[str, Any] = copy.deepcopy(examples[0])
    return example


class FakeApi:
    """An API in which everything succeeds, until a test changes an answer."""

    def __init__(self) -> None:
        self.answers = {call: example_of(model) for call, model in (_MODELS | fake_runs.MODELS).items()}
        fake_runs.connect_runs(self.answers)
        self.answers["GET /v0/whoami"] |= {"scopes": ["read", "search", "write"]}
        for placement in self.answers["GET /documents"]["documents"][0]["knowledge_bases"]:
            placement["status"] = "failed"
        self.problems: dict[str, httpx.Response] = {}
        """Refusals by call, instead of answers."""
        self.calls: list[str] = []
        self.bodies: dict[str, Any] = {}
        """Last body of each call with one."""
        self.headers: dict[str, dict[str, str]] = {}
        """Headers of answers by call."""
        self.queries: dict[str, httpx.QueryParams] = {}
        """Query parameters of the last request of each call."""
        self.sent_headers: dict[str, httpx.Headers] = {}
        """Headers of the last request of each call."""
        self.texts: dict[str, str] = {}
        """Answers that are no JSON, to requests that accept another type."""
        self.is_reachable = True
        self.needed_scope: Callable[[str], str | None] = lambda _: None
        """Scope that a call needs; every key may make a call that needs none."""
        self.held: dict[str, asyncio.Event] = {}
        """Events that calls wait for before they are answered."""
        self.begun: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """Events that say that a call has arrived."""

    def refuse(self, call: str, status: int, slug: str, **extra: object) -> None:
        """Let a call fail with a problem."""
        self.problems[call] = _problem(status, slug, f"Detail of {slug}.", **extra)

    def refuse_all(self, status: int, slug: str) -> None:
        for call in self.answers:
            self.refuse(call, status, slug)

    def replace_texts(
        self, replace: Callable[[str], str], *, names: frozenset[str], calls: Collection[str] | None = None
    ) -> None:
        """Replace all texts with these names, however deep they are, in the answers to all or to these calls."""
        for call, answer in self.answers.items():
            if calls is None or call in calls:
                _replace(answer, replace, names)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v0/orgs/acme")
        call = f"{request.method} {path}"
        self.calls.append(call)
        self.begun[call].set()
        if not self.is_reachable:
            raise httpx.ConnectError("refused")
        if call in self.held:
            await self.held[call].wait()
        self.sent_headers[call], self.queries[call] = request.headers, request.url.params
        if body := await request.aread():
            self.bodies[call] = _parse(body)
        needed = self.needed_scope(call)
        if needed is not None and not {needed, "admin"} & set(self.answers["GET /v0/whoami"]["scopes"]):
            return _problem(403, "missing-scope", f"This needs a key with the scope {needed!r}.")
        if call in self.problems:
            return self.problems[call]
        if request.method in {"PUT", "PATCH"} and path.startswith("/documents/"):
            return httpx.Response(202, json=example_of(AcceptedChange))
        if call in self.texts and request.headers["accept"] != "application/json":
            return httpx.Response(200, text=self.texts[call])
        if call not in self.answers:
            self.refuse(call, 404, "not-found")
            return self.problems[call]
        status = 201 if call in _CREATING else 200
        return httpx.Response(status, json=self.answers[call], headers=self.headers.get(call))


def _problem(status: int, slug: str, detail: str, **extra: object) -> httpx.Response:
    body = {"type": slug, "title": slug, "status": status, "detail": detail, "request_id": "r-1"}
    headers = {"Content-Type": "application/problem+json"} | ({"Retry-After": "3"} if status == 429 else {})
    return httpx.Response(status, content=json.dumps({**body, **extra}), headers=headers)


def _parse(body: bytes) -> Any:
    """Return a body, which may also be a text or a file that is sent as it is."""
    try:
        return json.loads(body)
    except ValueError:
        return body


def _replace(value: Any, replace: Callable[[str], str], names: frozenset[str]) -> None:
    match value:
        case dict():
            for name, each in value.items():
                if name == "type" and each == "knowledge_base":
                    # The kind of a tool is no text.
                    continue
                if name in names and isinstance(each, str):
                    value[name] = replace(each)
                elif name in names and isinstance(each, list) and all(isinstance(item, str) for item in each):
                    value[name] = [replace(item) for item in each]
                else:
                    _replace(each, replace, names)
        case list():
            for each in value:
                _replace(each, replace, names)
