"""Finds prompts and agents by what people call them."""

import re
from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from kb_client.command_line.unusable_request import UnusableRequest

_ID: Final = re.compile(r"[0-9a-f]{24}")
_NAMED: Final = 10


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


def find_named(items: Iterable[T], name_or_id: str, *, id_field: str, kind: str) -> T:
    """Return the item with this id or name, in upper or lower case.

    Raises:
        UnusableRequest: there is none, or several have the name.
    """
    known = list(items)
    if _ID.fullmatch(name_or_id):
        found = [each for each in known if getattr(each, id_field) == name_or_id]
        if found:
            return found[0]
    same = [each for each in known if each.name.casefold() == name_or_id.casefold()]
    found = [each for each in same if each.name == name_or_id] or same
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(str(getattr(each, id_field)) for each in found)
        raise UnusableRequest(f"{len(found)} {kind}s are called {name_or_id!r}; name one by its id: {ids}")
    raise UnusableRequest(f"there is no {kind} {name_or_id!r}; {_describe_known(known, kind)}")


def _describe_known(known: list[T], kind: str) -> str:
    if not known:
        return f"there is none yet. `kb {kind}s create` creates one"
    names = ", ".join(repr(each.name) for each in known[:_NAMED])
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"there are: {names}{more}"
