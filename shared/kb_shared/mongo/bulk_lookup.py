"""Looks up many rows by their ids in one query for each organization: what a `BatchLoader` calls."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.mongo.database import Database

Found = TypeVar("Found")
Scope = TypeVar("Scope")
Key = TypeVar("Key")


class OrganizationKey(NamedTuple):
    """Id of a document, a KB or a text within an organization."""

    organization_id: str
    identity: str


def bulk_lookup(
    database: Database, find: Callable[[Database, str, Collection[str]], Awaitable[Mapping[str, Found]]]
) -> Callable[[Sequence[OrganizationKey]], Awaitable[Mapping[OrganizationKey, Found]]]:
    """Adapt a lookup within one organization to a batch loader, whose keys may be of several organizations."""

    async def ask(organization_id: str, identities: Collection[str]) -> Mapping[OrganizationKey, Found]:
        found = await find(database, organization_id, identities)
        return {OrganizationKey(organization_id, identity): each for identity, each in found.items()}

    async def ask_for_all(wanted: Sequence[OrganizationKey]) -> Mapping[OrganizationKey, Found]:
        return await in_parts(wanted, ask)

    return ask_for_all


async def in_parts(
    wanted: Iterable[tuple[Scope, str]], ask: Callable[[Scope, Collection[str]], Awaitable[Mapping[Key, Found]]]
) -> dict[Key, Found]:
    """Run one query for each scope, all at the same time, and merge the results."""
    by_scope: dict[Scope, list[str]] = {}
    for scope, identity in wanted:
        by_scope.setdefault(scope, []).append(identity)
    parts = await run_all_or_cancel(ask(scope, identities) for scope, identities in by_scope.items())
    return {key: found for part in parts for key, found in part.items()}
