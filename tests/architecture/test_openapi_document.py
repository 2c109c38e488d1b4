"""The OpenAPI document is current, and a generator of clients or a reader finds in it all that they need."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final

import pytest
from pydantic import BaseModel, TypeAdapter

import kb_contracts.api
import kb_contracts.knowledge
from kb_contracts.api.problems import STATUSES
from kb_contracts.metadata import DateValue
from tests.architecture.test_errors_reference import rows, sections_of_problems
from tests.openapi.document import PACKAGED, ROOT, build, render

ROUTE: Final = re.compile(r"^@router\.(?:get|put|post|patch|delete)\((?:[^)]|\)(?!\n))*", re.MULTILINE)
OPERATION_ID: Final = re.compile(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*")
PROBLEM: Final = "application/problem+json"
METHODS: Final = {"get", "put", "post", "patch", "delete"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build()


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        assert path.keys() <= METHODS
        yield from path.values()


def resolve(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    found: Any = document
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    resolved: dict[str, Any] = found
    return resolved


def models() -> dict[str, Any]:
    """Return all models of the API by name."""
    packages = (kb_contracts.api, kb_contracts.knowledge)
    modules = [
        import_module(f"{package.__name__}.{each.name}")
        for package in packages
        for each in iter_modules(package.__path__)
    ]
    return {name: value for module in modules for name, value in vars(module).items() if name[0].isupper()}


def test_the_committed_document_is_that_of_the_code(document: dict[str, Any]) -> None:
    assert PACKAGED.read_text() == render(document), "run `make openapi`"
    assert (ROOT / "docs/openapi.json").resolve() == PACKAGED


def test_every_operation_has_an_id_of_its_own_as_resource_and_verb(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for operation in operations(document)]
    assert [each for each in ids if not OPERATION_ID.fullmatch(each)] == []
    assert [each for each, count in Counter(ids).items() if count > 1] == []


def test_every_schema_has_one_name_and_every_name_one_schema(document: dict[str, Any]) -> None:
    # FastAPI tells two models with one name apart by their modules, and two shapes of one model by a suffix.
    names = document["components"]["schemas"].keys()
    assert [name for name in names if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name)] == []
    assert names <= models().keys() | {DateValue.__name__}, "requests and responses are models of kb_contracts"


def test_properties_have_no_titles(document: dict[str, Any]) -> None:
    def titles(node: Any, *, are_names: bool = False) -> Iterator[Any]:
        if isinstance(node, list):
            for inner in node:
                yield from titles(inner)
        elif isinstance(node, dict):
            if not are_names and isinstance(node.get("title"), str):
                yield node["title"]
            for name, inner in node.items():
                if name not in {"examples", "example"}:
                    yield from titles(inner, are_names=name == "properties" and not are_names)

    assert list(titles(document["components"]["schemas"])) == []
    assert [each for operation in operations(document) for each in titles(operation)] == []


def test_every_operation_says_what_it_does(document: dict[str, Any]) -> None:
    for operation in operations(document):
        assert operation["summary"], operation["operationId"]
        assert len(operation["tags"]) == 1, operation["operationId"]


def test_every_request_and_response_has_an_example(document: dict[str, Any]) -> None:
    missing = [
        (operation["operationId"], media)
        for operation in operations(document)
        for content in (
            operation.get("requestBody", {}).get("content", {}),
            *(answer.get("content", {}) for status, answer in operation["responses"].items() if int(status) < 400),
        )
        for media, described in content.items()
        if not {"example", "examples"} & described.keys()
    ]
    assert missing == [], "add `model_config = example({...})` to the model"


def test_every_example_is_an_example_of_its_model(document: dict[str, Any]) -> None:
    known = models()
    for name, example in document["components"]["examples"].items():
        model = TypeAdapter(known[name.rstrip("0123456789")])
        parsed = model.validate_json(json.dumps(example["value"]))
        assert parsed is not None
        if isinstance(parsed, BaseModel):
            assert example["value"].keys() <= parsed.model_dump(by_alias=True).keys(), name


def test_every_error_of_an_operation_is_a_problem_with_its_slugs(document: dict[str, Any]) -> None:
    for operation in operations(document):
        errors = {status: answer for status, answer in operation["responses"].items() if int(status) >= 400}
        assert {"400", "401", "403", "404", "422", "429", "503"} <= errors.keys()
        for status, answer in errors.items():
            schema = resolve(document, answer)["content"][PROBLEM]["schema"]
            slugs = schema["allOf"][1]["properties"]["type"]["enum"]
            assert [slug for slug in slugs if int(status) not in STATUSES[slug]] == []


def test_the_slugs_and_statuses_of_problems_are_those_of_the_reference() -> None:
    documented = {slug: statuses for slug, statuses in rows(*sections_of_problems()).items() if slug != "bad-request"}
    known = {slug: ", ".join(map(str, statuses)) for slug, statuses in STATUSES.items() if slug != "bad-request"}
    assert known == documented


def test_a_filter_contains_itself_and_is_described_once(document: dict[str, Any]) -> None:
    schema = document["components"]["schemas"]["MetadataFilter"]
    assert schema["properties"]["$or"]["items"]["$ref"] == "#/components/schemas/MetadataFilter"
    field = document["components"]["schemas"]["SearchRequest"]["properties"]["metadata_filter"]
    assert field["anyOf"] == [{"$ref": "#/components/schemas/MetadataFilter"}, {"type": "null"}]


def test_events_of_runs_are_told_apart_by_their_names(document: dict[str, Any]) -> None:
    answer = document["paths"]["/v0/orgs/{organization_id}/runs"]["post"]["responses"]["200"]["content"]
    assert answer["text/event-stream"]["schema"] == {"$ref": "#/components/schemas/RunEvent"}
    events = document["components"]["schemas"]["RunEvent"]
    names = {
        document["components"]["schemas"][each["$ref"].rpartition("/")[2]]["properties"]["event"]["const"]
        for each in events["oneOf"]
    }
    assert names == events["discriminator"]["mapping"].keys()


def test_every_route_gives_its_operation_id_itself() -> None:
    # The pages of the console are no operations.
    sources = [path for path in Path(ROOT / "services").rglob("*.py") if "kb_console" not in path.parts]
    decorators = [match[0] for source in sources for match in ROUTE.finditer(source.read_text())]
    assert len(decorators) > 50
    assert [each for each in decorators if "operation_id=" not in each] == []
