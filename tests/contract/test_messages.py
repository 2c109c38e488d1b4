"""What has been published must stay readable, and what is documented must be what is read."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it comes without types
import pytest

from kb_contracts import schemas, topics
from kb_contracts.cloudevents import Payload, decode, encode
from kb_contracts.commands import INDEX_REQUESTS
from kb_contracts.documents import DOCUMENT_EVENTS
from kb_contracts.outcomes import KB_EVENTS, USAGE

TYPES: dict[str, type[Payload]] = {**DOCUMENT_EVENTS, **INDEX_REQUESTS, **KB_EVENTS, **USAGE}
EXAMPLES = sorted((Path(__file__).parent / "examples").glob("*/*.json"))
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"

each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def schema_of(kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{kind}.json").read_text(encoding="utf-8"))
    return schema


def violations(message: Any, kind: str) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(schema_of(kind)).iter_errors(message)]


@each_example
def test_every_example_ever_published_is_read(path: Path) -> None:
    envelope, payload = decode(path.read_bytes(), TYPES)

    assert envelope.type == path.parent.name == payload.TYPE
    fields = json.loads(path.read_text(encoding="utf-8"))["data"]
    known = {name: value for name, value in fields.items() if name in type(payload).model_fields}
    assert type(payload).model_validate(known) == payload
    assert decode(encode(payload, source="/test"), TYPES)[1] == payload


@each_example
def test_every_example_follows_the_documented_schema(path: Path) -> None:
    assert violations(json.loads(path.read_text(encoding="utf-8")), path.parent.name) == []


@each_example
def test_what_we_write_follows_the_documented_schema(path: Path) -> None:
    _, payload = decode(path.read_bytes(), TYPES)
    assert violations(json.loads(encode(payload, source="/test")), path.parent.name) == []


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_every_type_has_examples(kind: str) -> None:
    assert any(path.parent.name == kind for path in EXAMPLES)


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_every_schema_is_one_and_refuses_messages_without_data(kind: str) -> None:
    schema = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    example = json.loads(next(path for path in EXAMPLES if path.parent.name == kind).read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(example | {"data": {}} if kind != "document.rejected.v1" else {}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(example | {"type": "another"}, schema)


def test_the_documented_schemas_are_those_of_the_models() -> None:
    documented = {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.glob("*")}
    assert documented == schemas.files(), "run `make schemas`"


def test_asyncapi_names_every_topic_and_every_message() -> None:
    document = schemas.asyncapi()

    assert document["channels"].keys() == {topic.name for topic in topics.TOPICS}
    messages = document["components"]["messages"]
    assert messages.keys() == {*TYPES, *(f"{name}.binary" for name in DOCUMENT_EVENTS)}
    for message in messages.values():
        file, _, pointer = message["payload"]["$ref"].partition("#/$defs/")
        assert not pointer or pointer in json.loads((SCHEMAS / file).read_text(encoding="utf-8"))["$defs"]
    for channel in document["channels"].values():
        for reference in channel["messages"].values():
            assert reference.get("$ref", "").removeprefix("#/components/messages/") in {*messages, ""}
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in document["channels"]
