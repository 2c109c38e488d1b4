"""Finds what of an OpenAPI document is no longer true in a later one. Pure.

A caller of the earlier version breaks when an operation or a field of a response disappears or changes its type, when a
response can have a value that it could not have before, or when a request that was accepted is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Schema = Mapping[str, Any]
Direction = Literal["request", "response"]


@dataclass(frozen=True, slots=True, order=True)
class BreakingChange:
    operation_id: str
    what: str

    def __str__(self) -> str:
        return f"{self.operation_id}: {self.what}"


def find_breaking_changes(earlier: Schema, later: Schema) -> list[BreakingChange]:
    """Return what breaks callers of `earlier`, by operation."""
    then, now = _operations(earlier), _operations(later)
    found: set[BreakingChange] = set()
    for operation_id, (address, operation) in then.items():
        if operation_id not in now:
            found.add(BreakingChange(operation_id, "removed"))
            continue
        now_address, now_operation = now[operation_id]
        if address != now_address:
            found.add(BreakingChange(operation_id, f"moved from {address}"))
        compared = _DocumentPair(earlier, later).of_operations(operation, now_operation)
        found |= {BreakingChange(operation_id, what) for what in compared}
    return sorted(found)


def unannounced(changes: list[BreakingChange], changelog: str) -> list[BreakingChange]:
    """Return the changes without a line `Breaking: <operation id> ...` in the changelog."""
    lines = [line.strip().removeprefix("- ") for line in changelog.splitlines()]
    announced = {
        line.split()[1].rstrip(":,") for line in lines if line.startswith("Breaking: ") and len(line.split()) > 1
    }
    return [change for change in changes if change.operation_id not in announced]


def _operations(document: Schema) -> dict[str, tuple[str, Schema]]:
    return {
        operation["operationId"]: (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


@dataclass(frozen=True, slots=True)
class _DocumentPair:
    earlier: Schema
    later: Schema

    def of_operations(self, then: Schema, now: Schema) -> Iterator[str]:
        yield from self._parameters(then, now)
        yield from self._contents(
            then.get("requestBody", {}), now.get("requestBody", {}), place="request", direction="request"
        )
        if not then.get("requestBody", {}).get("required") and now.get("requestBody", {}).get("required"):
            yield "request: a body is required"
        for status, answer in then["responses"].items():
            if int(status) >= 400:  # a problem is described by its slug
                continue
            if status not in now["responses"]:
                yield f"response {status}: removed"
                continue
            yield from self._contents(
                answer, now["responses"][status], place=f"response {status}", direction="response"
            )

    def _parameters(self, then: Schema, now: Schema) -> Iterator[str]:
        before, after = (
            {(each["in"], each["name"]): each for each in operation.get("parameters", ())} for operation in (then, now)
        )
        for (where, name), parameter in before.items():
            if (where, name) not in after:
                yield f"{where} parameter {name}: removed"
                continue
            schemas = parameter["schema"], after[where, name]["schema"]
            yield from self._schemas(*schemas, place=f"{where} parameter {name}", direction="request")
        for (where, name), parameter in after.items():
            if parameter.get("required") and not before.get((where, name), {}).get("required"):
                yield f"{where} parameter {name}: required"

    def _contents(self, then: Schema, now: Schema, *, place: str, direction: Direction) -> Iterator[str]:
        for media_type, content in then.get("content", {}).items():
            if media_type not in now.get("content", {}):
                yield f"{place}: no longer {media_type}"
                continue
            schemas = content["schema"], now["content"][media_type]["schema"]
            yield from self._schemas(*schemas, place=place, direction=direction)

    def _schemas(
        self, then: Schema, now: Schema, *, place: str, direction: Direction, within: frozenset[str] = frozenset()
    ) -> Iterator[str]:
        if "$ref" in then:
            # A schema may contain itself.
            if then["$ref"] in within:
                return
            within |= {then["$ref"]}
        then, now = _resolve(self.earlier, then), _resolve(self.later, now)
        yield from _types(then, now, place=place, direction=direction)
        yield from _enums(then, now, place=place, direction=direction)
        yield from self._properties(then, now, place=place, direction=direction, within=within)
        for name, suffix in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(then.get(name), Mapping) and isinstance(now.get(name), Mapping):
                yield from self._schemas(
                    then[name], now[name], place=place + suffix, direction=direction, within=within
                )
        # Alternatives are compared where both have one object: null beside it changes nothing of its fields.
        before, after = (
            self._only_structure(document, each) for document, each in ((self.earlier, then), (self.later, now))
        )
        if before is not None and after is not None:
            yield from self._schemas(before, after, place=place, direction=direction, within=within)

    def _only_structure(self, document: Schema, schema: Schema) -> Schema | None:
        alternatives = schema.get("anyOf", ())
        structures = [each for each in alternatives if _resolve(document, each).get("type") in {"object", "array"}]
        return structures[0] if len(structures) == 1 else None

    def _properties(
        self, then: Schema, now: Schema, *, place: str, direction: Direction, within: frozenset[str]
    ) -> Iterator[str]:
        before, after = then.get("properties", {}), now.get("properties", {})
        required_before, required_after = set(then.get("required", ())), set(now.get("required", ()))
        for name in before.keys() - after.keys():
            yield f"{place}.{name}: removed"
        if direction == "request":
            yield from (f"{place}.{name}: required" for name in required_after - required_before)
        else:
            yield from (f"{place}.{name}: may be absent" for name in (required_before - required_after) & after.keys())
        for name in before.keys() & after.keys():
            yield from self._schemas(
                before[name], after[name], place=f"{place}.{name}", direction=direction, within=within
            )


def _types(then: Schema, now: Schema, *, place: str, direction: Direction) -> Iterator[str]:
    before, after = _types_of(then), _types_of(now)
    if not before or not after:
        return
    lost = before - after if direction == "request" else after - before
    if lost:
        verb = "no longer takes" if direction == "request" else "may be"
        yield f"{place}: {verb} {', '.join(sorted(lost))}"
    elif direction == "response" and not before & after:
        yield f"{place}: is no longer {', '.join(sorted(before))}"


def _enums(then: Schema, now: Schema, *, place: str, direction: Direction) -> Iterator[str]:
    before, after = _values_of(then), _values_of(now)
    if before is None and after is not None and direction == "request" and _types_of(then):
        yield f"{place}: takes only {', '.join(sorted(map(str, after)))}"
    if before is None or after is None:
        return
    if direction == "request" and (lost := before - after):
        yield f"{place}: no longer takes {', '.join(sorted(map(str, lost)))}"
    if direction == "response" and (lost := before - after):
        yield f"{place}: is never {', '.join(sorted(map(str, lost)))}"


def _types_of(schema: Schema) -> set[str]:
    alternatives = schema.get("anyOf", schema.get("oneOf", ()))
    if alternatives:
        types = [_types_of(each) for each in alternatives if "$ref" not in each]
        # A reference stands for an object.
        return set().union(*types) | ({"object"} if any("$ref" in each for each in alternatives) else set())
    given = schema.get("type")
    if given is None:
        return set()
    return {given} if isinstance(given, str) else set(given)


def _values_of(schema: Schema) -> set[Any] | None:
    if "const" in schema:
        return {schema["const"]}
    return set(schema["enum"]) if "enum" in schema else None


def _resolve(document: Schema, schema: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema
