"""Which KBs have so much open work that more of it belongs on the bulk lane, where it delays nobody else."""

from time import monotonic
from typing import Final

from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database

CROWDED_FROM: Final = 200
_KNOWN_FOR_S: Final = 1.0


class Crowds:
    """Counts the open jobs of KBs, each at most once a second."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[float, bool]] = {}

    async def has(self, organization_id: str, kb_id: str) -> bool:
        counted_at, crowded = self._known.get(kb_id, (-_KNOWN_FOR_S, False))
        if monotonic() - counted_at < _KNOWN_FOR_S:
            return crowded
        count = await index_jobs.count_open(self._database, organization_id, kb_id, limit=CROWDED_FROM + 1)
        self._forget_old()
        self._known[kb_id] = (monotonic(), count > CROWDED_FROM)
        return count > CROWDED_FROM

    def _forget_old(self) -> None:
        now = monotonic()
        self._known = {kb_id: known for kb_id, known in self._known.items() if now - known[0] < _KNOWN_FOR_S}
