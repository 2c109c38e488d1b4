"""Checks JSON schemas of answers, and answers against them. Pure.

A few references that refer to each other take exponential time. So each check has a budget of steps, which are counted
before each keyword by what it reads of the schema and of the answer, and after it by what it says. The same schema and
the same answer have the same outcome on each machine. A check is too long for an event loop: run it in a thread.
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

from kb_shared.text.whole_characters import whole_characters

MAX_SCHEMA_CHARACTERS: Final = 20_000
MAX_VIOLATIONS: Final = 20
MAX_MESSAGE_CHARACTERS: Final = 300
MAX_STEPS: Final = 200_000
"""Maximum number of steps of one check: enough for 20,000 characters of properties, definitions or references.

A step takes 2 to 3 microseconds on a usual machine.
"""
MAX_CPU_S: Final = 30.0
"""Brake for what the steps overlook: twelve times what `MAX_STEPS` take on a machine five times slower than usual."""
STEPS_OF_REFERENCE: Final = 6
"""Number of steps of a reference besides the one that each keyword takes."""
SEGMENT_PAIRS_OF_STEP: Final = 256
"""Pairs of segments of a reference that count as one step: at each segment the library looks at all before it."""
ELEMENTS_OF_STEP: Final = 4
"""Elements of a schema or of an answer that count as one step of each keyword that reads them."""
CHARACTERS_OF_STEP: Final = 64

_UNSUPPORTED: Final = frozenset(
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
"""Keywords that are refused: a regular expression can take unlimited time, `unevaluated...` is evaluated repeatedly,
and the others refer to other documents."""

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef"})
_KNOWN: Final[Registry[Any]] = Registry()
"""Registry without other schemas. The default registry of the library would load them over the network."""
_budget: ContextVar["_Budget"] = ContextVar("budget")

Violations: TypeAlias = Iterator[jsonschema.ValidationError]
Keyword: TypeAlias = Callable[..., Violations | None]


class UnusableSchema(ValueError):
    """A schema that can't be used; its text says why."""


class _TooLong(Exception):
    """The budget is used up."""


class _Budget:
    """Budget of one check."""

    def __init__(self) -> None:
        self._steps_left = MAX_STEPS
        self._ends_at_cpu_s = time.thread_time() + MAX_CPU_S

    def charge(self, steps: int = 1) -> None:
        """Raise _TooLong if so many steps are not left."""
        self._steps_left -= steps
        if self._steps_left < 0 or time.thread_time() > self._ends_at_cpu_s:
            raise _TooLong

    def charge_keyword(self, keyword: str, value: Any, instance: Any = None) -> None:
        """Charge the cost of checking a part of the answer against a keyword with this value. Raises _TooLong."""
        # Only these compare all that is in their value.
        elements = _count_elements(value) if keyword in {"const", "enum"} else _length(value)
        steps = 1 + (elements + _length(instance)) // ELEMENTS_OF_STEP
        if isinstance(value, str):
            steps += len(value) // CHARACTERS_OF_STEP
            if keyword in _REFERENCES:
                steps += STEPS_OF_REFERENCE + value.count("/") ** 2 // SEGMENT_PAIRS_OF_STEP
        self.charge(steps)

    def charge_characters(self, count: int) -> None:
        """Charge the cost of a text that is read or written. Raises _TooLong."""
        self.charge(count // CHARACTERS_OF_STEP)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise UnusableSchema unless answers can be checked against the schema quickly and without the network."""
    _budget.set(_Budget())
    try:
        problem = _find_problem(schema)
    except _TooLong:
        problem = (
            f"takes more than {MAX_STEPS} steps to check: its parts are too many, or refer to each other too often"
        )
    except Unresolvable:
        problem = "refers to something that is not in it"
    except RecursionError:
        problem = "refers to itself without end"
    except UnusableSchema as found:
        problem = str(found)
    except Exception as error:  # noqa: BLE001  # the library raises any error for an invalid reference
        problem = f"can't be used: {type(error).__name__}"
    if problem:
        raise UnusableSchema(problem)


def _find_problem(schema: Mapping[str, Any]) -> str | None:
    if len(json.dumps(schema, ensure_ascii=False)) > MAX_SCHEMA_CHARACTERS:
        return f"has more than {MAX_SCHEMA_CHARACTERS} characters"
    resolver = _KNOWN.resolver_with_root(DRAFT202012.create_resource(schema))
    for keyword, value in _keywords(schema):
        if keyword in _UNSUPPORTED:
            return f"uses {keyword!r}, which is not supported"
        if keyword == "$ref":
            if not (isinstance(value, str) and value.startswith("#")):
                return "refers to something outside of itself"
            _budget.get().charge_keyword(keyword, value)
            resolver.lookup(value)
    for error in _Validator(jsonschema.Draft202012Validator.META_SCHEMA).iter_errors(schema):
        return f"is not a valid JSON schema: {error.message[:MAX_MESSAGE_CHARACTERS]}"
    # A reference that leads back to itself is noticed only when the schema is used.
    probes: Sequence[Any] = (None, {}, [], "")
    for probe in probes:
        list(_validator(schema).iter_errors(probe))
    return None


def find_violations(answer: str, schema: Mapping[str, Any]) -> Sequence[str]:
    """Return what is wrong with an answer, at most `MAX_VIOLATIONS` messages; none if it follows the schema."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return ["the answer is not JSON"]
    found = []
    _budget.set(_Budget())
    try:
        for error in _validator(schema).iter_errors(value):
            # A name in the answer may contain half of a surrogate pair, which JSON allows but MongoDB can't store.
            found.append(whole_characters(f"{error.json_path}: {error.message}")[:MAX_MESSAGE_CHARACTERS])
            if len(found) == MAX_VIOLATIONS:
                break
    except RecursionError:
        return ["the answer is nested too deeply"]
    except _TooLong:
        return [f"the answer takes more than {MAX_STEPS} steps to check against the schema; answer more simply"]
    except Exception:  # noqa: BLE001  # such as a number that is too large; no input of a tenant may break a run
        return ["the answer can't be checked against the schema"]
    return found


def _validator(schema: Mapping[str, Any]) -> Any:
    return _AnswerValidator(schema, registry=_KNOWN)


def _within_budget(name: str, keyword: Keyword) -> Keyword:
    def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Violations:
        budget = _budget.get()
        budget.charge_keyword(name, value, instance)
        for error in keyword(validator, value, instance, schema) or ():
            # A message repeats its part of the answer.
            budget.charge_characters(len(error.message))
            yield error

    return checked


def _refusing_unsupported(keyword: Keyword) -> Keyword:
    def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Violations:
        # A reference can point to a part that is not a schema at its own place.
        if not _UNSUPPORTED.isdisjoint(schema):
            raise UnusableSchema("refers to a keyword that is not supported")
        yield from keyword(validator, value, instance, schema) or ()

    return checked


def _unique_items(_validator: Any, wanted: Any, items: Any, _schema: Any) -> Violations:
    """Check `uniqueItems` in linear time; the library compares all pairs. 1 and 1.0 count as different here."""
    if not (wanted and isinstance(items, list)):
        return
    texts = [json.dumps(item, sort_keys=True) for item in items]
    _budget.get().charge_characters(sum(map(len, texts)))
    if len(set(texts)) < len(texts):
        yield jsonschema.ValidationError("has elements that are not unique")


def _evolve_with_budget(validator: Any, **changes: Any) -> Any:
    """Charge the step to another part, and keep the class with the budget.

    The library would use its own validator for a schema that names its dialect.
    """
    _budget.get().charge()
    return attrs.evolve(validator, **changes)


_Validator: Final = extend(
    jsonschema.Draft202012Validator,
    {
        name: _within_budget(name, _unique_items if name == "uniqueItems" else keyword)
        for name, keyword in jsonschema.Draft202012Validator.VALIDATORS.items()
    },
)
_AnswerValidator: Final = extend(
    _Validator, {name: _refusing_unsupported(keyword) for name, keyword in _Validator.VALIDATORS.items()}
)
for _each in (_Validator, _AnswerValidator):
    _each.evolve = _evolve_with_budget


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield every name in a schema with its value; also names within data, which is stricter than necessary."""
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


def _count_elements(value: Any) -> int:
    """Return the number of values in a part of a schema, also of those within others."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count_elements, inner))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | Mapping) else 0
