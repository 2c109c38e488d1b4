"""A search begins with its key and KBs as this process saw them last, and reads them again with its hits (ADR 0011).

So nothing is answered that is not allowed at the moment the answer is from, and a query that was asked lately waits for
no look-up.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kb_search.retrieval.known_knowledge_bases import KnownKnowledgeBases
from kb_shared.http.authentication import CachedKey
from kb_shared.mongo import api_keys, knowledge_bases
from kb_shared.mongo.database import Row, mongo_errors
from kb_shared.mongo.knowledge_bases import KnowledgeBase

_TO_EXPLAIN_S: Final = 3.0
"""For looking again after a failure. MongoDB may be what failed, and the caller has waited for it once already."""


class StaleRead(Exception):
    """The key or a KB has changed since the search began; the search has to restart."""


class OptimisticRead:
    """A key and KBs as they were last read. The hits are valid only if both are still the same when these are read."""

    def __init__(
        self,
        known: KnownKnowledgeBases,
        organization_id: str,
        kbs: Mapping[str, KnowledgeBase],
        key: CachedKey | None,
        *,
        looked_at: bool,
    ) -> None:
        """Start from these.

        Args:
            known: for looking again.
            organization_id: of the key and of all KBs.
            kbs: by id.
            key: None if the caller has read it for this request.
            looked_at: whether the KBs were read for this request.
        """
        self.kbs = kbs
        self._known = known
        self._organization_id = organization_id
        self._key = key
        self._confirmed = looked_at and (key is None or key.looked_at)
        self._stale = False
        self._looking = asyncio.Lock()

    @property
    def stages(self) -> list[Row]:
        """The stages that add at most `rows` rows for `check` to a query on any collection, in each snapshot."""
        of_key = [] if self._key is None else [api_keys.united_with(self._key.stored.key)]
        of_kbs = [knowledge_bases.united_with(self._organization_id, [*self.kbs])] if self.kbs else []
        return [*of_key, *of_kbs]

    @property
    def rows(self) -> int:
        return len(self.kbs) + int(self._key is not None)

    def check(self, rows: Sequence[Row]) -> None:
        """Compare with what the stages added. Raises StaleRead."""
        keys = [api_keys.stored_key(row["api_key"]) for row in rows if "api_key" in row]
        kbs = [knowledge_bases.ROWS.read(row["knowledge_base"]) for row in rows if "knowledge_base" in row]
        self._confirm(
            same=keys == ([] if self._key is None else [self._key.stored])
            and _lasting({kb.kb_id: kb for kb in kbs}) == _lasting(self.kbs)
        )

    async def look(self) -> None:
        """Look again now, unless that was done for this request.

        Raises:
            StaleRead: it is not what it was.
            RequestError, NotFound: the key is refused.
            TransientError: MongoDB is away.
        """
        async with self._looking:
            if self._stale:
                raise StaleRead
            if self._confirmed:
                return
            with mongo_errors():
                if self._key is not None:
                    await self._key.look_again()
                kbs = await self._known.look(self._organization_id, [*self.kbs])
            self._confirm(same=_lasting(kbs) == _lasting(self.kbs))

    async def holds(self) -> bool:
        """Say whether a search that began with this failed for another reason, also if MongoDB can't tell in time.

        Raises:
            RequestError, NotFound: the key is refused.
            TransientError: MongoDB is away.
        """
        # Also where that was done for this request: a KB that was deleted since takes its indexes along.
        self._confirmed = False
        try:
            async with asyncio.timeout(_TO_EXPLAIN_S):
                await self.look()
        except StaleRead:
            return False
        except TimeoutError:
            return True
        return True

    def _confirm(self, *, same: bool) -> None:
        self._confirmed, self._stale = same, not same
        if not same:
            raise StaleRead


def _lasting(kbs: Mapping[str, KnowledgeBase]) -> dict[str, KnowledgeBase]:
    """Without what every search changes."""
    return {kb_id: replace(kb, last_searched_at=None) for kb_id, kb in kbs.items()}
