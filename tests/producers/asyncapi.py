"""Compares records of upstream services with the AsyncAPI document."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it comes without types

from kb_contracts.topics import DOCUMENT_EVENTS

SCHEMAS: Final = Path(__file__).parents[2] / "docs/schemas"


@cache
def asyncapi() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads((SCHEMAS / "asyncapi.json").read_text(encoding="utf-8"))
    return document


def violations(key: str, headers: Mapping[str, str], value: bytes) -> list[str]:
    """Return what the document does not allow of a record on `document-events`; its texts are not repeated."""
    event = json.loads(value)
    name = f"{headers['ce_type']}.binary" if "ce_type" in headers else event["type"]
    channel = asyncapi()["channels"][DOCUMENT_EVENTS.name]
    if name not in channel["messages"]:
        return [f"{name} is no message of the channel"]
    message = asyncapi()["components"]["messages"][channel["messages"][name]["$ref"].rpartition("/")[2]]
    return [
        *_errors(message["bindings"]["kafka"]["key"], key, "key"),
        *_errors(message["headers"], headers, "headers"),
        *_errors(_payload(message["payload"]["$ref"]), event, "payload"),
    ]


@cache
def _payload(reference: str) -> Mapping[str, Any]:
    file, _, pointer = reference.partition("#")
    schema: dict[str, Any] = json.loads((SCHEMAS / file).read_text(encoding="utf-8"))
    return {"$ref": f"#{pointer}", "$defs": schema["$defs"]} if pointer else schema


def _errors(schema: Mapping[str, Any], instance: object, what: str) -> Sequence[str]:
    found = Draft202012Validator(schema).iter_errors(instance)
    return [f"{what} {error.json_path}: {error.message[:200]}" for error in found]
