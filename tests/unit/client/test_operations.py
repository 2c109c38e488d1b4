"""The methods of the client are the operations of all services, with the same parameters and models."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast
from unittest.mock import MagicMock

import pytest
from fastapi import FastAPI

from kb_api import bootstrap as kb_api
from kb_api.settings import ApiSettings
from kb_client import Client
from kb_client.call import ORGANIZATION_PATH, ApiCall
from kb_client.sync_client.operation import SyncListing, SyncOperation, SyncResource
from kb_client.unset import UNSET
from kb_knowledge import bootstrap as kb_knowledge
from kb_knowledge.settings import KnowledgeSettings
from kb_search import bootstrap as kb_search
from kb_search.settings import SearchSettings

RENAMED: Final = {"from": "since", "to": "until", "If-Match": "if_match", "schema": "answer_schema"}
"""Names that Python or pydantic does not allow, or that are no names in Python."""
OF_THE_CLIENT: Final = {"X-KB-Origin", "Idempotency-Key", "Last-Event-ID", "organization_id"}
"""Parameters that the client sends by itself."""
OF_UPLOADS: Final = {"text", "content", "on_progress"}


@dataclass(frozen=True)
class ClientMethod:
    name: str
    """Resource and method, such as `tags.list`."""
    call: ApiCall[Any]
    """The request with an argument for each parameter, equal to its name."""
    required: frozenset[str]
    accepted: frozenset[str]


@dataclass(frozen=True)
class ServiceOperation:
    method: str
    path: str
    described: Mapping[str, Any]
    schemas: Mapping[str, Any]

    @property
    def parameters(self) -> list[Mapping[str, Any]]:
        return [each for each in self.described.get("parameters", []) if each["name"] not in OF_THE_CLIENT]

    @property
    def body(self) -> Mapping[str, Any]:
        content = self.described.get("requestBody", {}).get("content", {})
        return self._resolved(content.get("application/json", {}).get("schema", {}))

    @property
    def answer(self) -> str:
        (success,) = [answer for status, answer in self.described["responses"].items() if status.startswith("2")]
        return str(success["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2])

    @property
    def names(self) -> set[str]:
        """All that a caller can give."""
        names = {each["name"] for each in self.parameters} | set(self.body.get("properties", {}))
        return {RENAMED.get(name, name) for name in names}

    @property
    def required_names(self) -> set[str]:
        names = {each["name"] for each in self.parameters if each.get("required")} | set(self.body.get("required", []))
        return {RENAMED.get(name, name) for name in names}

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


@cache
def client_methods() -> dict[tuple[str, str], ClientMethod]:
    found: dict[tuple[str, str], ClientMethod] = {}
    with Client("http://kb", organization="acme", api_key="kb_0_0") as client:
        for resource_name, resource in resources(client):
            for name, descriptor in inspect.getmembers_static(type(resource)):
                if isinstance(descriptor, SyncOperation | SyncListing):
                    method = describe(f"{resource_name}.{name}", getattr(resource, name))
                    key = (method.call.method, method.call.path)
                    assert key not in found, f"{method.name} and {found[key].name} are one operation"
                    found[key] = method
    return found


def resources(client: Client) -> Iterator[tuple[str, SyncResource]]:
    for name in dir(type(client)):
        if not name.startswith("_") and isinstance(value := getattr(client, name), SyncResource):
            yield name, value


def describe(name: str, method: Any) -> ClientMethod:
    parameters = inspect.signature(method).parameters.values()
    call = method.describe(**{each.name: each.name for each in parameters})
    required = frozenset(each.name for each in parameters if each.default is inspect.Parameter.empty)
    return ClientMethod(name, call, required, frozenset(each.name for each in parameters))


@cache
def service_operations() -> dict[tuple[str, str], ServiceOperation]:
    api = cast("Any", MagicMock())
    api.settings = ApiSettings()
    search = kb_search.create_app(SearchSettings(), database=MagicMock(), embedder=MagicMock(), chat=MagicMock())
    found: dict[tuple[str, str], ServiceOperation] = {}
    knowledge = kb_knowledge.create_app(KnowledgeSettings(), database=MagicMock(), chat=MagicMock())
    for app in (kb_api.create_app(api), search, knowledge):
        for each in operations_of(app):
            found[each.method, each.path] = each
    return found


def operations_of(app: FastAPI) -> Iterator[ServiceOperation]:
    document = app.openapi()
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            below = path.removeprefix(ORGANIZATION_PATH)
            yield ServiceOperation(method.upper(), below, described, document["components"]["schemas"])


def test_each_operation_has_one_method_and_no_method_calls_anything_else() -> None:
    assert client_methods().keys() == service_operations().keys()


def test_a_method_has_the_name_of_its_operation() -> None:
    ids = {key: each.described.get("operationId", "") for key, each in service_operations().items()}
    named = {key: name for key, name in ids.items() if re.fullmatch(r"\w+\.\w+", name)}
    assert {key: client_methods()[key].name for key in named} == named


@pytest.mark.parametrize("key", client_methods(), ids=" ".join)
def test_a_method_takes_and_returns_what_its_operation_does(key: tuple[str, str]) -> None:
    method, operation = client_methods()[key], service_operations()[key]
    uploads = OF_UPLOADS if method.call.upload is not None else set()
    assert method.accepted - uploads == operation.names
    assert method.required - uploads == operation.required_names
    assert method.call.answer.__name__ == operation.answer


@pytest.mark.parametrize("key", client_methods(), ids=" ".join)
def test_each_argument_of_a_method_is_sent_under_its_own_name(key: tuple[str, str]) -> None:
    call, operation = client_methods()[key].call, service_operations()[key]
    by_kind = {"path": call.ids, "query": call.query, "header": call.headers}
    for parameter in operation.parameters:
        name = parameter["name"]
        assert by_kind[parameter["in"]][name] == RENAMED.get(name, name)
    # A list of documents is sent as a list, also one that is a text here.
    sent = {name: "".join(value) if isinstance(value, list) else value for name, value in (call.body or {}).items()}
    assert sent == {name: RENAMED.get(name, name) for name in operation.body.get("properties", {})}


def test_arguments_that_are_left_out_are_not_sent() -> None:
    with Client("http://kb", organization="acme", api_key="kb_0_0") as client:
        call = client.knowledge_bases.update.describe("65f1c2a3b4d5e6f708192a3b", min_score=None, name=UNSET)
    assert call.body == {"min_score": None}
    assert call.given_headers() == {}
