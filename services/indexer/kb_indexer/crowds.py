"""Which KBs have so much open work that more of it belongs on the bulk lane, where it delays nobody else."""

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

from kb_shared.concurrency.gathering import Gathering
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.together import Of

CROWDED_FROM: Final = 200
_KNOWN_FOR_S: Final = 1.0


class Crowds:
    """Counts the open jobs of KBs, each once a second, however many ask at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open = Gathering(self._count)
        self._known: dict[str, tuple[float, bool]] = {}

    async def has(self, organization_id: str, kb_id: str) -> bool:
        counted_at, crowded = self._known.get(kb_id, (-_KNOWN_FOR_S, False))
        if monotonic() - counted_at < _KNOWN_FOR_S:
            return crowded
        crowded = (await self._open(Of(organization_id, kb_id)) or 0) > CROWDED_FROM
        self._forget_old()
        self._known[kb_id] = (monotonic(), crowded)
        return crowded

    async def _count(self, kbs: Sequence[Of]) -> Mapping[Of, int]:
        counts = await asyncio.gather(
            *(index_jobs.count_open(self._database, *kb, limit=CROWDED_FROM + 1) for kb in kbs)
        )
        return dict(zip(kbs, counts, strict=True))

    def _forget_old(self) -> None:
        now = monotonic()
        self._known = {kb_id: known for kb_id, known in self._known.items() if now - known[0] < _KNOWN_FOR_S}
