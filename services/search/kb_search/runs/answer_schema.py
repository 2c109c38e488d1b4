"""JSON schemas of answers: which are taken, and what of an answer violates one. Pure.

A few references that lead to each other take exponential time. So each check has a budget of steps and of processor
time, which is looked at before each keyword, and no keyword does more than read its part of the schema and of the
answer once. That is still too long for an event loop: check in a thread.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import attrs
import jsonschema  # type: ignore[import-untyped]  # it comes without types
from jsonschema.validators import extend  # type: ignore[import-untyped]  # as above
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from kb_shared.chat.completion import whole_characters

MAX_SCHEMA_CHARACTERS: Final = 20_000
MAX_VIOLATIONS: Final = 20
MAX_MESSAGE_CHARACTERS: Final = 300
MAX_STEPS: Final = 55_000
"""Steps of one check, each of 3 microseconds; the largest schema takes 51,000."""
STEPS_OF_REFERENCE: Final = 6
"""Any other keyword is one."""
MAX_CPU_S: Final = 0.5
"""CPU seconds of one check, where a keyword has much to read in the answer."""
ELEMENTS_OF_STEP: Final = 4
"""Elements of a keyword's value that count as one step."""
CHARACTERS_OF_STEP: Final = 64

_NOT_TAKEN: Final = frozenset(
    {
        "pattern",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
        "$recursiveRef",
        "$dynamicAnchor",
        "$id",
    }
)
"""A regular expression can take for ever, what is unevaluated is looked for again and again, and the others lead
elsewhere."""

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef"})
_KNOWN: Final[Registry[Any]] = Registry()
"""Nothing but the schema itself: the registry that the library takes by itself asks the network."""
_budget: ContextVar["_Budget"] = ContextVar("budget")

Violations: TypeAlias = Iterator[jsonschema.ValidationError]
Keyword: TypeAlias = Callable[..., Violations | None]


class UnusableSchema(ValueError):
    """`str()` says why."""


class _TooLong(Exception):
    """The budget is used up."""


class _Budget:
    """Budget of one check."""

    def __init__(self, max_cpu_s: float) -> None:
        self._steps_left = MAX_STEPS
        self._ends_at_cpu_s = time.thread_time() + max_cpu_s

    def charge(self, keyword: str, value: object) -> None:
        """Take what it costs to look at a keyword with this value. Raises _TooLong."""
        self._steps_left -= STEPS_OF_REFERENCE if keyword in _REFERENCES else 1
        if isinstance(value, str):
            self._steps_left -= len(value) // CHARACTERS_OF_STEP
        elif isinstance(value, list):
            self._steps_left -= len(value) // ELEMENTS_OF_STEP
        if self._steps_left < 0 or time.thread_time() > self._ends_at_cpu_s:
            raise _TooLong


def check_schema(schema: Mapping[str, Any], *, max_cpu_s: float = MAX_CPU_S) -> None:
    """Raises UnusableSchema unless answers can be checked against it in little time and without asking anybody."""
    _budget.set(_Budget(max_cpu_s))
    try:
        problem = _problem_of(schema)
    except _TooLong:
        problem = "takes too long to check: its parts refer to each other too often"
    except Unresolvable:
        problem = "refers to something that is not in it"
    except RecursionError:
        problem = "refers to itself without end"
    except UnusableSchema as found:
        problem = str(found)
    except Exception as error:  # noqa: BLE001  # what is no reference raises what its library likes
        problem = f"can't be used: {type(error).__name__}"
    if problem:
        raise UnusableSchema(problem)


def _problem_of(schema: Mapping[str, Any]) -> str | None:
    if len(json.dumps(schema, ensure_ascii=False)) > MAX_SCHEMA_CHARACTERS:
        return f"has more than {MAX_SCHEMA_CHARACTERS} characters"
    resolver = _KNOWN.resolver_with_root(DRAFT202012.create_resource(schema))
    for keyword, value in _keywords(schema):
        if keyword in _NOT_TAKEN:
            return f"uses {keyword!r}, which is not supported"
        if keyword == "$ref":
            if not (isinstance(value, str) and value.startswith("#")):
                return "refers to something outside of itself"
            _budget.get().charge(keyword, value)
            resolver.lookup(value)
    for error in _Validator(jsonschema.Draft202012Validator.META_SCHEMA).iter_errors(schema):
        return f"is no JSON schema: {error.message[:MAX_MESSAGE_CHARACTERS]}"
    # What refers to itself without end shows when it is used.
    probes: Sequence[Any] = (None, {}, [], "")
    for probe in probes:
        list(_validator(schema).iter_errors(probe))
    return None


def violations(answer: str, schema: Mapping[str, Any], *, max_cpu_s: float = MAX_CPU_S) -> Sequence[str]:
    """Say what is wrong with an answer, at most `MAX_VIOLATIONS` things; nothing if it is as it should be."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return ["the answer is not JSON"]
    found = []
    _budget.set(_Budget(max_cpu_s))
    try:
        for error in _validator(schema).iter_errors(value):
            # A name in the answer may hold half of a surrogate pair, which JSON can say and nobody can store.
            found.append(whole_characters(f"{error.json_path}: {error.message}")[:MAX_MESSAGE_CHARACTERS])
            if len(found) == MAX_VIOLATIONS:
                break
    except RecursionError:
        return ["the answer is nested too deeply"]
    except _TooLong:
        return ["the answer takes too long to check against the schema; answer more simply"]
    except Exception:  # noqa: BLE001  # such as a number that is too large; nothing of a tenant's may break a run
        return ["the answer can't be checked against the schema"]
    return found


def _validator(schema: Mapping[str, Any]) -> Any:
    return _TenantsValidator(schema, registry=_KNOWN)


def _in_time(name: str, keyword: Keyword) -> Keyword:
    def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Violations:
        _budget.get().charge(name, value)
        yield from keyword(validator, value, instance, schema) or ()

    return checked


def _taken(keyword: Keyword) -> Keyword:
    def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Violations:
        # A reference can make a schema of what did not look like one.
        if not _NOT_TAKEN.isdisjoint(schema):
            raise UnusableSchema("refers to a keyword that is not supported")
        yield from keyword(validator, value, instance, schema) or ()

    return checked


def _unique_items(_validator: Any, wanted: Any, items: Any, _schema: Any) -> Violations:
    """Instead of the library's, which compares each with each. 1 and 1.0 are two here."""
    if wanted and isinstance(items, list) and len({json.dumps(item, sort_keys=True) for item in items}) < len(items):
        yield jsonschema.ValidationError("has elements that are not unique")


def _of_same_kind(validator: Any, **changes: Any) -> Any:
    """Instead of the library's, which takes a validator without a budget where a schema names its dialect."""
    return attrs.evolve(validator, **changes)


_Validator: Final = extend(
    jsonschema.Draft202012Validator,
    {
        name: _in_time(name, _unique_items if name == "uniqueItems" else keyword)
        for name, keyword in jsonschema.Draft202012Validator.VALIDATORS.items()
    },
)
_TenantsValidator: Final = extend(
    _Validator, {name: _taken(keyword) for name, keyword in _Validator.VALIDATORS.items()}
)
for _each in (_Validator, _TenantsValidator):
    _each.evolve = _of_same_kind


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every name in a schema with its value; also names of data, which is more than need be."""
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
