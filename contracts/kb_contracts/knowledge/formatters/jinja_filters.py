"""The filters and tests of Jinja2 that templates may use. None makes more than its input without asking the budget."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kb_contracts.knowledge.formatters.render_budget import RenderBudget
from kb_contracts.knowledge.formatters.section_variables import value_text


def find_member(value: Any, path: Any) -> Any:
    """Return the member of a map or list that a name, a position or a path such as `properties.year` leads to."""
    names = path.split(".") if isinstance(path, str) else [path]
    for name in names:
        match value, name:
            case dict(), str():
                value = value.get(name)
            case list(), int() if -len(value) <= name < len(value):
                value = value[name]
            case _:
                return None
    return value


@dataclass(frozen=True, slots=True)
class FilterInput:
    """The value that a filter is applied to, and the budget of the rendering."""

    budget: RenderBudget
    value: Any

    def members(self) -> list[Any]:
        """Return the members of a list or the names of a map; other values have none."""
        members = list(self.value) if isinstance(self.value, (list, dict)) else []
        self.budget.spend(len(members))
        return members

    def items(self) -> list[tuple[str, Any]]:
        members = list(self.value.items()) if isinstance(self.value, dict) else []
        self.budget.spend(len(members))
        return members


def _default(given: FilterInput, /, default_value: Any = "", boolean: bool = False) -> Any:
    return default_value if given.value is None or (boolean and not given.value) else given.value


def _join(given: FilterInput, /, d: Any = "", attribute: Any = None) -> str:
    members = given.members()
    texts = [value_text(each if attribute is None else find_member(each, attribute)) for each in members]
    separator = value_text(d)
    given.budget.spend_characters(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _replace(given: FilterInput, /, old: Any, new: Any) -> str:
    text, before, after = value_text(given.value), value_text(old), value_text(new)
    given.budget.spend_reading(len(text))
    given.budget.spend_characters(len(text) + text.count(before) * max(0, len(after) - len(before)))
    return text.replace(before, after)


def _changed(change: Callable[[str], str]) -> Callable[..., str]:
    def apply(given: FilterInput, /) -> str:
        return change(given.budget.produce(value_text(given.value)))

    return apply


def _length(given: FilterInput, /) -> int:
    return len(given.value) if isinstance(given.value, (str, list, dict)) else 0


def _first(given: FilterInput, /) -> Any:
    return next(iter(given.members()), None)


def _last(given: FilterInput, /) -> Any:
    return next(reversed(given.members()), None)


def _sort(given: FilterInput, /, reverse: bool = False, *, attribute: Any = None) -> list[Any]:
    members = given.members()
    keys = [_sort_key(given.budget, each if attribute is None else find_member(each, attribute)) for each in members]
    order = sorted(range(len(members)), key=keys.__getitem__, reverse=bool(reverse))
    return [members[index] for index in order]


def _unique(given: FilterInput, /) -> list[Any]:
    return list({given.budget.produce(json.dumps(each, sort_keys=True)): each for each in given.members()}.values())


def _map(given: FilterInput, /, *, attribute: Any) -> list[Any]:
    return [find_member(each, attribute) for each in given.members()]


def _selectattr(given: FilterInput, attribute: Any, /, test: Any = "true", *args: Any) -> list[Any]:
    return [each for each in given.members() if TESTS[test](find_member(each, attribute), *args)]


def _rejectattr(given: FilterInput, attribute: Any, /, test: Any = "true", *args: Any) -> list[Any]:
    return [each for each in given.members() if not TESTS[test](find_member(each, attribute), *args)]


def _tojson(given: FilterInput, /) -> str:
    return given.budget.produce(json.dumps(given.value, ensure_ascii=False))


def _items(given: FilterInput, /) -> list[Any]:
    return [list(each) for each in given.items()]


def _dictsort(given: FilterInput, /) -> list[Any]:
    return [list(each) for each in sorted(given.items(), key=lambda item: item[0])]


def _sort_key(budget: RenderBudget, value: Any) -> Any:
    return budget.produce(value).lower() if isinstance(value, str) else value


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "capitalize": _changed(str.capitalize),
    "count": _length,
    "d": _default,
    "default": _default,
    "dictsort": _dictsort,
    "first": _first,
    "items": _items,
    "join": _join,
    "last": _last,
    "length": _length,
    "lower": _changed(str.lower),
    "map": _map,
    "rejectattr": _rejectattr,
    "replace": _replace,
    "selectattr": _selectattr,
    "sort": _sort,
    "title": _changed(str.title),
    "tojson": _tojson,
    "trim": _changed(str.strip),
    "unique": _unique,
    "upper": _changed(str.upper),
}
TESTS: Final[Mapping[str, Callable[..., bool]]] = {
    "boolean": lambda value: isinstance(value, bool),
    "defined": lambda value: value is not None,
    "eq": lambda value, other: bool(value == other),
    "equalto": lambda value, other: bool(value == other),
    "mapping": lambda value: isinstance(value, dict),
    "ne": lambda value, other: bool(value != other),
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "sequence": lambda value: isinstance(value, (str, list, dict)),
    "string": lambda value: isinstance(value, str),
    "true": bool,
    "undefined": lambda value: value is None,
}
