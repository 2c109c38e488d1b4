"""Finds prompts, agents, sources and servers by what people call them."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from kb_client.command_line.unusable_request import UnusableRequest

_ID: Final = re.compile(r"[0-9a-f]{24}")
_NAMED: Final = 10


T = TypeVar("T")


def find_named(
    items: Iterable[T],
    name_or_id: str,
    *,
    id_field: str,
    kind: str,
    name_field: str = "name",
    creation: str | None = None,
) -> T:
    """Return the item with this id or name, in upper or lower case.

    Args:
        items: all there are.
        name_or_id: what the person calls it.
        id_field: field with the id of an item.
        kind: word for an item.
        name_field: field with its name.
        creation: command that creates an item. Default: `kb KINDs create`.

    Raises:
        UnusableRequest: there is none, or several have the name.
    """
    known = list(items)
    if _ID.fullmatch(name_or_id):
        found = [each for each in known if getattr(each, id_field) == name_or_id]
        if found:
            return found[0]
    same = [each for each in known if getattr(each, name_field).casefold() == name_or_id.casefold()]
    found = [each for each in same if getattr(each, name_field) == name_or_id] or same
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(str(getattr(each, id_field)) for each in found)
        raise UnusableRequest(f"{len(found)} {kind}s are called {name_or_id!r}; name one by its id: {ids}")
    names = [str(getattr(each, name_field)) for each in known]
    hint = _describe_names(names) if names else f"there is none yet. `{creation or f'kb {kind}s create'}` creates one"
    raise UnusableRequest(f"there is no {kind} {name_or_id!r}; {hint}")


def _describe_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"there are: {', '.join(map(repr, names[:_NAMED]))}{more}"
