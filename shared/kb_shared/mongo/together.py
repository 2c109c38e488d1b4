"""One query instead of many for what is asked of MongoDB at the same time. A query never spans two organizations."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kb_shared.mongo.database import Database

Found = TypeVar("Found")
Scope = TypeVar("Scope")
Key = TypeVar("Key")


class Of(NamedTuple):
    """One thing of an organization: a document, a KB or a text, by its id."""

    organization_id: str
    identity: str


def finding(
    database: Database, find: Callable[[Database, str, Collection[str]], Awaitable[Mapping[str, Found]]]
) -> Callable[[Sequence[Of]], Awaitable[Mapping[Of, Found]]]:
    """Make of what finds things of one organization by their ids what a `Gathering` asks."""

    async def ask(organization_id: str, identities: Collection[str]) -> Mapping[Of, Found]:
        found = await find(database, organization_id, identities)
        return {Of(organization_id, identity): each for identity, each in found.items()}

    async def ask_for_all(wanted: Sequence[Of]) -> Mapping[Of, Found]:
        return await in_parts(wanted, ask)

    return ask_for_all


async def in_parts(
    wanted: Iterable[tuple[Scope, str]], ask: Callable[[Scope, Collection[str]], Awaitable[Mapping[Key, Found]]]
) -> dict[Key, Found]:
    """Ask once for each scope."""
    by_scope: dict[Scope, list[str]] = {}
    for scope, identity in wanted:
        by_scope.setdefault(scope, []).append(identity)
    parts = await asyncio.gather(*(ask(scope, identities) for scope, identities in by_scope.items()))
    return {key: found for part in parts for key, found in part.items()}
