"""Finds knowledge bases by what people call them."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.unusable_request import UnusableRequest

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.knowledge_bases import KnowledgeBaseView

KnowledgeBaseArgument = Annotated[str, typer.Argument(metavar="KB", help="Name or id of the knowledge base.")]
KnowledgeBaseArguments = Annotated[list[str], typer.Argument(metavar="KB", help="Names or ids of knowledge bases.")]

_ID: Final = re.compile(r"[0-9a-f]{24}")
_NAMED: Final = 10


def find_knowledge_base(client: "Client", name_or_id: str) -> "KnowledgeBaseView":
    """Return a knowledge base by its id, or by its name in upper or lower case.

    Raises:
        UnusableRequest: there is none, or several have the name.
    """
    found = find_by_name(client, name_or_id)
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(each.kb_id for each in found)
        raise UnusableRequest(f"{len(found)} knowledge bases are called {name_or_id!r}; name one by its id: {ids}")
    if _ID.fullmatch(name_or_id):
        return client.knowledge_bases.get(name_or_id)
    raise UnusableRequest(f"there is no knowledge base {name_or_id!r}; {_describe_known(client)}")


def find_by_name(client: "Client", name: str) -> list["KnowledgeBaseView"]:
    """Return the knowledge bases with this name; those with the same case, if there are any."""
    found = [
        each
        for each in client.knowledge_bases.list.iterate(name_search=name)
        if each.name.casefold() == name.casefold()
    ]
    return [each for each in found if each.name == name] or found


def _describe_known(client: "Client") -> str:
    page = client.knowledge_bases.list(limit=_NAMED)
    if not page.knowledge_bases:
        return "there is none yet. `kb docs push FOLDER` creates one"
    names = ", ".join(repr(each.name) for each in page.knowledge_bases)
    more = f" and {page.total_count - _NAMED} more" if page.total_count > _NAMED else ""
    return f"there are: {names}{more}"
