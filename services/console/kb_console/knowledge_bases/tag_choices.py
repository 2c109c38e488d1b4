"""Tags to choose from in forms, and tags that were typed."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from kb_client import AsyncClient
from kb_client.own_tag import tag_named
from kb_contracts.api.tags import TagView
from kb_contracts.reserved_ids import is_reserved_tag_id

_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class TagChoices:
    tags: list[TagView]
    has_more: bool
    """True if there are more tags than are shown."""


async def list_tag_choices(api: AsyncClient) -> TagChoices:
    """Return the first tags of the organization."""
    found = await api.tags.list(limit=_MOST)
    # The documents of entries belong to the knowledge base of entries alone.
    own = [tag for tag in found.tags if not is_reserved_tag_id(tag.tag_id)]
    return TagChoices(own, has_more=found.total_count > len(found.tags))


async def find_missing_tags(api: AsyncClient, tag_ids: Collection[str]) -> list[str]:
    """Return those of the tags that do not exist, in their order."""
    missing = dict.fromkeys(tag_ids)
    if missing:
        async for tag in api.tags.list.iterate():
            missing.pop(tag.tag_id, None)
    return list(missing)


async def choose_own_tag(api: AsyncClient, name: str) -> str:
    """Return a tag for a knowledge base that was given none: the words of its name, and no tag that documents have."""
    own = tag_named(name)
    if await find_missing_tags(api, [own]):
        return own
    return f"{own}-{secrets.token_hex(3)}"


async def create_missing_tags(api: AsyncClient, tag_ids: Collection[str]) -> None:
    """Create those of the tags that do not exist. The others keep their names."""
    for tag_id in await find_missing_tags(api, tag_ids):
        await api.tags.put(tag_id, name=tag_id)
