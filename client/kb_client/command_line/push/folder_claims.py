"""Decides whether a folder may replace the documents that have its name, before anything is sent."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kb_client.command_line.counts import count_documents
from kb_client.command_line.output import visible
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.errors import HttpNotFound
from kb_client.files.document_ids import id_prefix
from kb_client.files.folder_place import FolderPlace, find_place, is_same_folder
from kb_client.files.found_file import normalize_name

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient
    from kb_contracts.api.pushed_folders import PushedFolderView

_SAME: Final = "Is it the same folder, so that its files take the place of these documents?"


@dataclass(frozen=True, slots=True)
class FolderClaim:
    """A name that the server has to be told the place of."""

    source: str
    place: FolderPlace
    replaces: int | None
    """Version of the place that it replaces; None if there is none."""
    is_adopted: bool = False
    """True if the documents of another folder become its own."""


async def check_folders(
    client: "AsyncClient", roots: Mapping[str, Path], *, is_named: bool, adopt: bool, ask: Callable[[str], bool]
) -> list[FolderClaim]:
    """Return what is new about the places of folders.

    Args:
        client: client of the organization.
        roots: folder by the name that ids of its documents begin with.
        is_named: whether a person has chosen that name.
        adopt: whether to take over the documents of another folder with that name.
        ask: asks a person, or returns False if there is none.

    Raises:
        UnusableRequest: the documents belong to another folder.
    """
    claims = []
    for source, root in sorted(roots.items()):
        place = find_place(root, is_named=is_named)
        stored = await _find(client, source)
        if stored is not None and is_same_folder(_place_of(stored), place):
            if place.is_named and not stored.is_named:
                claims.append(FolderClaim(source, place, stored.version))
            continue
        page = await client.documents.list(id_prefix=id_prefix(source), status="available", limit=1)
        if stored is None and page.total_count == 0:
            claims.append(FolderClaim(source, place, None))
            continue
        whose = _describe_holder(source, stored, place, count=page.total_count)
        if not adopt and not ask(f"{whose}. {_SAME}"):
            raise UnusableRequest(f"{whose}. Nothing was sent. {_describe_choices(source, root, stored)}")
        claims.append(FolderClaim(source, place, stored.version if stored else None, is_adopted=True))
    return claims


async def store_claims(client: "AsyncClient", claims: Iterable[FolderClaim]) -> None:
    """Tell the server where folders are.

    Raises:
        UnusableRequest: another folder with the same name is being pushed at this moment.
    """
    from kb_client.problems import ConcurrentChangeError

    for each in claims:
        try:
            await client.pushed_folders.put(
                _name_of(each.source),
                host=each.place.host,
                path=each.place.path,
                is_named=each.place.is_named,
                replaces=each.replaces,
            )
        except ConcurrentChangeError:
            raise UnusableRequest(
                f"another folder called {each.source!r} was pushed at this moment. Nothing was sent: push again to see"
                " which one it is"
            ) from None


async def _find(client: "AsyncClient", source: str) -> "PushedFolderView | None":
    try:
        return await client.pushed_folders.get(_name_of(source))
    except HttpNotFound:
        return None


def _name_of(source: str) -> str:
    return id_prefix(source).removesuffix(".")


def _place_of(stored: "PushedFolderView") -> FolderPlace:
    return FolderPlace(stored.host, stored.path, stored.is_named)


def _describe_holder(source: str, stored: "PushedFolderView | None", mine: FolderPlace, *, count: int) -> str:
    documents = f"{count_documents(count)} named after the folder {source!r}"
    if stored is None:
        return f"there are {documents}, and it is not known which folder they were pushed from; this one is {mine}"
    is_gone = stored.host == mine.host and not Path(stored.path).exists()
    gone = ", which is no longer there" if is_gone else ""
    holder = visible(str(_place_of(stored)))
    since = f"first pushed on {stored.first_pushed_at:%Y-%m-%d}"
    return f"there are {documents}, of {holder}{gone} ({since}); this one is {mine}"


def _describe_choices(source: str, root: Path, stored: "PushedFolderView | None") -> str:
    name = shlex.quote(source)
    apart = shlex.quote(normalize_name(f"{root.parent.name or 'other'}-{root.name}"))
    anywhere = (
        f"if it is that one, which is pushed from several places: --source {name}"
        if stored is not None and stored.is_named
        else f"if it is pushed from several places, as by CI: --source {name}, and --adopt the first time"
    )
    return f"Choose one: to keep both, --source {apart}; if it is the same folder, moved or copied: --adopt; {anywhere}"
