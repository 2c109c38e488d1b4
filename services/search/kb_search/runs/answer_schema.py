"""JSON schemas of answers: which are taken, and what of an answer violates one. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # it comes without types

MAX_SCHEMA_CHARACTERS: Final = 20_000
MAX_VIOLATIONS: Final = 20
MAX_MESSAGE_CHARACTERS: Final = 300

_NOT_TAKEN: Final = frozenset({"pattern", "patternProperties", "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$id"})
"""A regular expression can take for ever, and the others lead elsewhere."""


class UnusableSchema(ValueError):
    """`str()` says why."""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises UnusableSchema unless answers can be checked against it in little time and without asking anybody."""
    if problem := _problem_of(schema):
        raise UnusableSchema(problem)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
        # What refers to itself without end, or to nothing, shows when it is used.
        probes: Sequence[Any] = (None, {}, [], "")
        for probe in probes:
            list(jsonschema.Draft202012Validator(schema).iter_errors(probe))
    except jsonschema.SchemaError as error:
        raise UnusableSchema(f"is no JSON schema: {error.message[:MAX_MESSAGE_CHARACTERS]}") from None
    except RecursionError:
        raise UnusableSchema("refers to itself without end") from None
    except Exception as error:  # noqa: BLE001  # a reference that leads nowhere raises what its library likes
        raise UnusableSchema(f"can't be used: {type(error).__name__}") from None


def _problem_of(schema: Mapping[str, Any]) -> str | None:
    if len(json.dumps(schema, ensure_ascii=False)) > MAX_SCHEMA_CHARACTERS:
        return f"has more than {MAX_SCHEMA_CHARACTERS} characters"
    for keyword, value in _keywords(schema):
        if keyword in _NOT_TAKEN:
            return f"uses {keyword!r}, which is not supported"
        if keyword == "$ref" and not (isinstance(value, str) and value.startswith("#")):
            return "refers to something outside of itself"
    return None


def violations(answer: str, schema: Mapping[str, Any]) -> Sequence[str]:
    """Say what is wrong with an answer, at most `MAX_VIOLATIONS` things; nothing if it is as it should be."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return ["the answer is not JSON"]
    found = []
    try:
        for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
            found.append(f"{error.json_path}: {error.message}"[:MAX_MESSAGE_CHARACTERS])
            if len(found) == MAX_VIOLATIONS:
                break
    except RecursionError:
        return ["the answer is nested too deeply"]
    return found


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every name in a schema with its value; also names of properties, which is more than need be."""
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            if name == "properties" and isinstance(value, Mapping):
                for each in value.values():
                    yield from _keywords(each)
                continue
            yield name, value
            yield from _keywords(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _keywords(each)
