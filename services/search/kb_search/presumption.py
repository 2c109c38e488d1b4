"""A search begins with what was so when this process last looked, and looks again in the read that gives its hits.

So nothing is answered that is not allowed at the moment of the answer, and two look-ups, which came one after the other
before everything else, cost neither time nor a command (ADR 0011).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kb_shared.http.authentication import PresumedKey
from kb_shared.mongo import api_keys, knowledge_bases
from kb_shared.mongo.api_keys import StoredKey
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


class Outdated(Exception):
    """What a search was begun with is not so any more."""


class Presumption:
    """A key and KBs that have to be what they were, until they were looked at again."""

    def __init__(self, key: PresumedKey | None, kbs: Sequence[KnowledgeBase]) -> None:
        """Presume what there is of it; of nothing at all, everything holds."""
        self._key = None if key is None else key.stored
        self.kbs: Mapping[str, KnowledgeBase] = {kb.kb_id: kb for kb in kbs}
        self._holds = True if key is None and not kbs else None

    @property
    def stages(self) -> list[Row]:
        """Of a query on any collection: one row each, for `check`; none if that was done."""
        if self._holds:
            return []
        of_key = [] if self._key is None else [api_keys.united_with(self._key.key)]
        return [*of_key, *map(knowledge_bases.united_with, self.kbs.values())]

    def check(self, rows: Sequence[Row]) -> None:
        """Compare with what the stages added. Raises Outdated."""
        if self._holds:
            return
        keys = [api_keys.stored_key(row["api_key"]) for row in rows if "api_key" in row]
        kbs = [knowledge_bases.from_row(row["knowledge_base"]) for row in rows if "knowledge_base" in row]
        self._compare(keys[0] if keys else None, {kb.kb_id: kb for kb in kbs})

    async def look(self, database: Database) -> None:
        """Look again now, unless that was done. Raises Outdated."""
        if self._holds:
            return
        key, kbs = await asyncio.gather(self._key_of(database), self._kbs_of(database))
        self._compare(key, kbs)

    async def still_holds(self, database: Database) -> bool:
        """Whether what was begun on it went wrong for another reason."""
        if self._holds is None:
            try:
                await self.look(database)
            except Outdated:
                return False
        return bool(self._holds)

    async def _key_of(self, database: Database) -> StoredKey | None:
        if self._key is None:
            return None
        key_id = self._key.key.key_id
        return (await api_keys.find_all(database, [key_id])).get(key_id)

    async def _kbs_of(self, database: Database) -> dict[str, KnowledgeBase]:
        found = await asyncio.gather(
            *(knowledge_bases.find(database, kb.organization_id, kb.kb_id) for kb in self.kbs.values())
        )
        return {kb.kb_id: kb for kb in found if kb is not None}

    def _compare(self, key: StoredKey | None, kbs: Mapping[str, KnowledgeBase]) -> None:
        self._holds = key == self._key and _lasting(kbs) == _lasting(self.kbs)
        if not self._holds:
            raise Outdated


def _lasting(kbs: Mapping[str, KnowledgeBase]) -> dict[str, KnowledgeBase]:
    """Without what every search changes."""
    return {kb_id: replace(kb, last_searched_at=None) for kb_id, kb in kbs.items()}
