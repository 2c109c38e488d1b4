"""Completes FastAPI's OpenAPI document, so that people and generators of clients can use it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from typing_extensions import TypeAliasType

from kb_contracts.api.problems import STATUSES, Problem
from kb_shared.http.request_context import PROBLEM_MEDIA_TYPE

Schema = dict[str, Any]
JsonResponses = dict[int | str, dict[str, Any]]

SCHEMAS: Final = "#/components/schemas/"
EVENT_STREAM: Final = "text/event-stream"
TITLE: Final = "Knowledge bases"
_METHODS_WITHOUT_REPETITION: Final = frozenset({"post"})
_OF_EVERY_OPERATION: Final = (
    "not-http",
    "unauthenticated",
    "missing-scope",
    "key-limited",
    "not-found",
    "request-timeout",
    "validation-error",
    "too-many-requests",
    "too-many-failed-authentications",
    "too-many-at-once",
    "overloaded",
    "unavailable",
    "too-many-connections",
)
_OF_BODIES: Final = ("malformed-json", "incomplete-body", "body-too-large", "unsupported-media-type")
_FIRST_PROBLEM: Final = 400
_OF_IDEMPOTENCY_KEYS: Final = ("idempotency-key-in-use", "idempotency-key-reused")
_MAPS_OF_SCHEMAS: Final = ("properties", "patternProperties", "$defs")
_LISTS_OF_SCHEMAS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS: Final = ("additionalProperties", "items", "not", "propertyNames")


def build(routers: Sequence[APIRouter], *, version: str) -> Schema:
    """Build the document of routers, of one service or of several."""
    app = FastAPI(title=TITLE, version=version)
    for router in routers:
        app.include_router(router)
    return complete(app.openapi(), routers)


def complete(document: Schema, routers: Iterable[APIRouter]) -> Schema:
    """Complete the document that FastAPI made of routers in place, and return it."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    _add(schemas, Problem.model_json_schema(ref_template=SCHEMAS + "{model}"), name="Problem")
    # FastAPI describes its own errors, which no service sends.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path in document["paths"].values():
        for method, operation in path.items():
            _describe_problems(operation, method)
            for media in _media_types(operation):
                # A schema that FastAPI was given as it is brings its definitions along.
                _add(schemas, media["schema"])
    for schema in schemas.values():
        _remove_titles(schema)
    for parameter in _parameters(document):
        _remove_titles(parameter["schema"])
    components["responses"] = dict(_shared_responses())
    components["examples"] = dict(_move_examples(document, _examples_of(routers)))
    components["schemas"] = dict(sorted(schemas.items()))
    return document


def event_stream(event: TypeAliasType, *, description: str) -> JsonResponses:
    """Declare that a route can also answer with server-sent events, whose union is `event`."""
    definitions = TypeAdapter(dict[str, event]).json_schema(ref_template=SCHEMAS + "{model}")["$defs"]  # type: ignore[valid-type]  # a type at run time only
    schema = {"$ref": f"{SCHEMAS}{event.__name__}", "$defs": definitions}
    return {HTTPStatus.OK.value: {"description": description, "content": {EVENT_STREAM: {"schema": schema}}}}


def problems_of(route: APIRoute) -> frozenset[str]:
    """Return the slugs of the problems that a route may answer with."""
    slugs = {slug for response in route.responses.values() for slug in response.get("x-problems", ())}
    return frozenset({*_OF_EVERY_OPERATION, *_OF_BODIES, *_OF_IDEMPOTENCY_KEYS, *slugs})


def _add(schemas: Schema, schema: Schema, *, name: str | None = None) -> None:
    schemas |= schema.pop("$defs", {})
    if name is not None:
        schemas[name] = schema


def _operations(document: Schema) -> Iterator[Schema]:
    return (operation for path in document["paths"].values() for operation in path.values())


def _parameters(document: Schema) -> Iterator[Schema]:
    return (parameter for operation in _operations(document) for parameter in operation.get("parameters", ()))


def _media_types(operation: Schema) -> Iterator[Schema]:
    """Yield the contents of the request and of the responses."""
    for described in (operation.get("requestBody", {}), *operation["responses"].values()):
        yield from described.get("content", {}).values()


def _describe_problems(operation: Schema, method: str) -> None:
    """Describe each status of 400 and above with the slugs of its problems: those of all operations and its own."""
    declared = [slug for response in operation["responses"].values() for slug in response.get("x-problems", ())]
    slugs = [*_OF_EVERY_OPERATION, *declared]
    if "requestBody" in operation:
        slugs += _OF_BODIES
    if method in _METHODS_WITHOUT_REPETITION:
        slugs += _OF_IDEMPOTENCY_KEYS
    by_status: dict[int, list[str]] = {}
    for slug in dict.fromkeys(slugs):
        for status in STATUSES[slug]:
            by_status.setdefault(status, []).append(slug)
    answers = {status: shown for status, shown in operation["responses"].items() if int(status) < _FIRST_PROBLEM}
    operation["responses"] = answers | {
        str(status): _refer_or_describe(status, by_status[status]) for status in sorted(by_status)
    }


def _refer_or_describe(status: int, slugs: Sequence[str]) -> Schema:
    """Refer to the response that many operations share, or describe one of this operation."""
    if set(slugs) == set(_shared_slugs(status)):
        return {"$ref": f"#/components/responses/{_name_of(status)}"}
    return _problem_response(status, slugs)


def _shared_slugs(status: int) -> list[str]:
    return [slug for slug in (*_OF_EVERY_OPERATION, *_OF_BODIES) if status in STATUSES[slug]]


def _shared_responses() -> Iterator[tuple[str, Schema]]:
    for status in sorted({status for slug in (*_OF_EVERY_OPERATION, *_OF_BODIES) for status in STATUSES[slug]}):
        yield _name_of(status), _problem_response(status, _shared_slugs(status))


def _name_of(status: int) -> str:
    return _phrase(status).replace(" ", "")


def _problem_response(status: int, slugs: Sequence[str]) -> Schema:
    of_these = {"type": "object", "properties": {"type": {"enum": sorted(slugs)}}, "required": ["type"]}
    schema = {"allOf": [{"$ref": f"{SCHEMAS}Problem"}, of_these]}
    return {"description": _phrase(status), "content": {PROBLEM_MEDIA_TYPE: {"schema": schema}}}


def _phrase(status: int) -> str:
    # Versions of Python call these differently.
    return {413: "Content Too Large", 422: "Unprocessable Content"}.get(status, HTTPStatus(status).phrase)


def _remove_titles(schema: Any) -> None:
    """Remove the titles that pydantic makes from names, but no property that is called `title`."""
    if not isinstance(schema, dict):
        return
    schema.pop("title", None)
    for name in _MAPS_OF_SCHEMAS:
        for inner in schema.get(name, {}).values():
            _remove_titles(inner)
    for name in _LISTS_OF_SCHEMAS:
        for inner in schema.get(name, ()):
            _remove_titles(inner)
    for name in _SCHEMAS:
        _remove_titles(schema.get(name))


def _move_examples(document: Schema, examples: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Schema]]:
    """Let requests and responses show the example of their model, which is where tools look for it."""
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    shown = {}
    for operation in _operations(document):
        for media in _media_types(operation):
            name = media["schema"].get("$ref", "").removeprefix(SCHEMAS)
            if "examples" in schemas.get(name, {}):
                numbered = _numbered(name, schemas[name]["examples"])
                media["examples"] = {each: {"$ref": f"#/components/examples/{each}"} for each in numbered}
                shown[name] = schemas[name]
    for name, schema in sorted(shown.items()):
        found = examples.get(name, schema["examples"])
        yield from ((each, {"value": value}) for each, value in _numbered(name, found).items())
        del schema["examples"]


def _numbered(name: str, examples: Sequence[Any]) -> dict[str, Any]:
    """Return the examples of a model by the names that they have in the document."""
    return {name if number == 1 else f"{name}{number}": value for number, value in enumerate(examples, start=1)}


def _examples_of(routers: Iterable[APIRouter]) -> Mapping[str, Sequence[Any]]:
    """Return the examples of requests and responses as their models give them: FastAPI leaves out what is null."""
    found: dict[str, Sequence[Any]] = {}
    routes = (route for router in routers for route in router.routes if isinstance(route, APIRoute))
    for route in routes:
        body = route.body_field.field_info.annotation if route.body_field is not None else None
        for model in (route.response_model, body):
            extra = getattr(model, "model_config", {}).get("json_schema_extra")
            if isinstance(extra, dict) and model is not None:
                found[model.__name__] = extra["examples"]
    return found
