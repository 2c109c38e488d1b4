"""Asks the indexes of KBs and reads what they found, once more and wider where that is not enough for the page."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pymongo.errors import OperationFailure

from kb_search.concurrent_tasks import run_all
from kb_search.retrieval.coalescing import ChunkPosition
from kb_search.retrieval.legs import Ranking, Target, query_legs
from kb_search.retrieval.optimistic_read import OptimisticRead, StaleRead
from kb_search.retrieval.query import Mode, SearchQuery
from kb_search.retrieval.results import width_of
from kb_search.retrieval.selection import MOST_CANDIDATES, Hit, Page, depth_for, page_of
from kb_search.retrieval.snapshot import ReadSnapshot
from kb_search.retrieval.stopwatch import Stopwatch
from kb_shared.errors import KbError, RequestError
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.majority import PrimaryChanged, current_snapshot

_WIDER: Final = 4
_SNAPSHOT_GONE: Final = frozenset({239, 246})  # SnapshotTooOld, SnapshotUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read:
    """Hits as they were at one moment."""

    page: Page
    neighbours: Mapping[ChunkPosition, Row]


@dataclass(frozen=True, slots=True)
class HitFinder:
    """Finds the hits of one search."""

    database: Database
    query: SearchQuery
    optimistic_read: OptimisticRead
    failures: MutableMapping[str, KbError]
    """Gets what goes wrong with one KB, by its id."""
    stopwatch: Stopwatch

    async def find(self, targets: Sequence[Target]) -> Read:
        """Find a page. Raises StaleRead."""
        query = self.query
        limit = depth_for(query.wanted, fused=query.mode is Mode.HYBRID)
        words: dict[str, Mapping[str, float] | None] = {}
        while True:
            asked = await run_all(self._ask(target, limit, words.get(target.kb.kb_id)) for target in targets)
            ranked = succeeded(zip(targets, asked, strict=True), self.failures)
            with self.stopwatch.stage("read"):
                read = await self._read(ranked)
            page = read.page
            targets = [target for target, _ in ranked if target.kb.kb_id not in self.failures]
            if len(page.hits) == query.top_k or page.total_count_is_exact or limit == MOST_CANDIDATES:
                break
            # Chunks that were replaced or have left took the places of live ones: ask for more rather than answer less
            # than there is; at once for all there may be where nobody can tell how many have left.
            limit = MOST_CANDIDATES if any(one.doubtful for _, one in ranked) else limit * _WIDER
            limit = min(limit, MOST_CANDIDATES)
            words = {target.kb.kb_id: ranking.words for target, ranking in ranked}
        return read

    async def _ask(self, target: Target, limit: int, words: Mapping[str, float] | None) -> Ranking | KbError:
        try:
            return await query_legs(target, self.query, limit=limit, stopwatch=self.stopwatch, words=words)
        except RequestError as error:
            return error

    async def _read(self, ranked: Sequence[tuple[Target, Ranking]]) -> Read:
        try:
            return await self._read_at_one_moment(ranked)
        except PrimaryChanged as error:
            raise StaleRead from error
        except OperationFailure as error:
            if error.code in _SNAPSHOT_GONE:
                # A collection was changed in a way that takes its past away: perhaps it went with its KB.
                raise StaleRead from error
            raise

    async def _read_at_one_moment(self, ranked: Sequence[tuple[Target, Ranking]]) -> Read:
        query = self.query
        async with current_snapshot(self.database) as session:
            snapshot = ReadSnapshot(session, self.optimistic_read)
            found = [
                await snapshot.hits(target, ranking, query, min_score=_min_score(target, query))
                for target, ranking in ranked
            ]
            page = page_of(found, skip=query.skip, top_k=query.top_k)
            hits: dict[ChunkPosition, Hit] = {}
            neighbours: dict[ChunkPosition, Row] = {}
            for target, _ in ranked:
                own = [hit for hit in page.hits if hit.kb_id == target.kb.kb_id]
                hits |= {hit.place: hit for hit in await snapshot.with_relevance(target, own)}
                neighbours |= await snapshot.neighbours(target, own, width_of(target.kb, query))
        return Read(replace(page, hits=[hits[hit.place] for hit in page.hits]), neighbours)


def succeeded(
    outcomes: Iterable[tuple[Target, T | KbError]], failures: MutableMapping[str, KbError]
) -> list[tuple[Target, T]]:
    """Note those that failed, and give the others."""
    others: list[tuple[Target, T]] = []
    for target, outcome in outcomes:
        if isinstance(outcome, KbError):
            failures[target.kb.kb_id] = outcome
        else:
            others.append((target, outcome))
    return others


def _min_score(target: Target, query: SearchQuery) -> float | None:
    if target.vector is None:
        # What only words found has no relevance.
        return None
    return target.kb.min_score if query.min_score is None else query.min_score
