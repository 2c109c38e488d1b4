"""Queries the indexes of KBs and reads the candidates; again with a higher limit if the page is not full."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pymongo.errors import OperationFailure

from kb_search.retrieval.coalescing import ChunkPosition
from kb_search.retrieval.legs import RankedCandidates, SearchTarget, query_legs
from kb_search.retrieval.optimistic_read import OptimisticRead, StaleRead
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.results import neighbour_width
from kb_search.retrieval.selection import LIMIT_GROWTH, MAX_CANDIDATES, Hit, ResultPage, cut_page, leg_limit
from kb_search.retrieval.snapshot import ReadSnapshot
from kb_search.retrieval.stopwatch import Stopwatch
from kb_search.retrieval.strength import min_relevance
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.errors import KbError, RequestError
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.majority import PrimaryChanged, current_snapshot

_SNAPSHOT_LOST: Final = frozenset({239, 246})  # SnapshotTooOld, SnapshotUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page of hits with their neighbours, read at one point in time."""

    page: ResultPage
    neighbours: Mapping[ChunkPosition, Row]


@dataclass(frozen=True, slots=True)
class HitFinder:
    """Finds the hits of one search."""

    database: Database
    query: SearchQuery
    optimistic_read: OptimisticRead
    failures: MutableMapping[str, KbError]
    """Errors by KB id. The finder adds those of KBs that can't be searched."""
    stopwatch: Stopwatch

    async def find(self, targets: Sequence[SearchTarget]) -> FoundPage:
        """Find the page of the query. Raises StaleRead."""
        query = self.query
        limit = query.candidates_of_leg or leg_limit(query.matches_needed)
        all_text_scores: dict[str, Mapping[str, float] | None] = {}
        while True:
            outcomes = await run_all(
                self._query_legs(target, limit, all_text_scores.get(target.kb.kb_id)) for target in targets
            )
            ranked = separate_failures(zip(targets, outcomes, strict=True), self.failures)
            with self.stopwatch.stage("read"):
                read = await self._read(ranked)
            page = read.page
            targets = [target for target, _ in ranked if target.kb.kb_id not in self.failures]
            if len(page.hits) == query.top_k or page.total_count_is_exact or limit == MAX_CANDIDATES:
                break
            # Retired and deleted chunks took the places of live ones: query again with a higher limit. If an index
            # returned fewer than its limit, the number of deleted chunks is unknown: use the highest limit at once.
            may_be_exhausted = any(candidates.may_be_exhausted for _, candidates in ranked)
            limit = MAX_CANDIDATES if may_be_exhausted else min(limit * LIMIT_GROWTH, MAX_CANDIDATES)
            all_text_scores = {target.kb.kb_id: candidates.all_text_scores for target, candidates in ranked}
        return read

    async def _query_legs(
        self, target: SearchTarget, limit: int, all_text_scores: Mapping[str, float] | None
    ) -> RankedCandidates | KbError:
        try:
            return await query_legs(
                target, self.query, limit=limit, stopwatch=self.stopwatch, all_text_scores=all_text_scores
            )
        except RequestError as error:
            return error

    async def _read(self, ranked: Sequence[tuple[SearchTarget, RankedCandidates]]) -> FoundPage:
        try:
            return await self._read_snapshot(ranked)
        except PrimaryChanged as error:
            raise StaleRead from error
        except OperationFailure as error:
            if error.code in _SNAPSHOT_LOST:
                # The catalog of a collection was changed, for example because its KB was deleted.
                raise StaleRead from error
            raise

    async def _read_snapshot(self, ranked: Sequence[tuple[SearchTarget, RankedCandidates]]) -> FoundPage:
        query = self.query
        async with current_snapshot(self.database) as session:
            snapshot = ReadSnapshot(session, self.optimistic_read)
            found = [
                await snapshot.read_hits(target, candidates, query=query, min_score=_min_score(target, query))
                for target, candidates in ranked
            ]
            page = cut_page(found, skip=query.skip, top_k=query.top_k)
            hits: dict[ChunkPosition, Hit] = {}
            neighbours: dict[ChunkPosition, Row] = {}
            for target, _ in ranked:
                own = [hit for hit in page.hits if hit.kb_id == target.kb.kb_id]
                hits |= {hit.position: hit for hit in await snapshot.add_relevance(target, own)}
                neighbours |= await snapshot.read_neighbours(target, own, width=neighbour_width(target.kb, query))
        return FoundPage(replace(page, hits=[hits[hit.position] for hit in page.hits]), neighbours)


def separate_failures(
    outcomes: Iterable[tuple[SearchTarget, T | KbError]], failures: MutableMapping[str, KbError]
) -> list[tuple[SearchTarget, T]]:
    """Add the errors to `failures`, and return the other outcomes with their targets."""
    others: list[tuple[SearchTarget, T]] = []
    for target, outcome in outcomes:
        if isinstance(outcome, KbError):
            failures[target.kb.kb_id] = outcome
        else:
            others.append((target, outcome))
    return others


def _min_score(target: SearchTarget, query: SearchQuery) -> float | None:
    if target.vector is None:
        # Without a vector of the query there is no relevance.
        return None
    return min_relevance(target.kb, query)
