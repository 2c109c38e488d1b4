"""The story of a search. Whoever searches, over HTTP or as a tool of a model, comes through here.

The search indexes give ids and scores; everything that is shown is read from one snapshot of the collections.
"""

import asyncio
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, TypeVar

import structlog
from pymongo.errors import OperationFailure

from kb_search.at_once import all_of
from kb_search.chunk_counts import ChunkCounts
from kb_search.coalescing import Place
from kb_search.filter_clauses import Clause
from kb_search.filter_errors import FilterError
from kb_search.filters import compile_filter, parse
from kb_search.last_searched import LastSearched
from kb_search.legs import Ranking, Target, ask
from kb_search.query import Asker, Mode, SearchQuery
from kb_search.query_log import QueryLog
from kb_search.query_vectors import embed_query
from kb_search.results import Answered, assemble, width_of
from kb_search.selection import MOST_CANDIDATES, Hit, Page, depth_for, page_of
from kb_search.snapshot import Snapshot
from kb_search.stopwatch import Stopwatch
from kb_search.text_filter import to_operator
from kb_shared.embedding.embedder import Embedder
from kb_shared.errors import KbError, NotFound, RequestError, TransientError
from kb_shared.gathering import Gathering
from kb_shared.metrics import SEARCH_FILTER_REJECTED, SEARCH_REQUESTS, SEARCH_RESULTS_COUNT
from kb_shared.mongo import knowledge_bases, vectors
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.query_log import LoggedQuery
from kb_shared.mongo.together import Of, finding

_WIDER: Final = 4
_SMALL_UP_TO_CHUNKS: Final = 1_000
_SNAPSHOT_GONE: Final = frozenset({239, 246})  # SnapshotTooOld, SnapshotUnavailable

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Answer:
    kbs: Sequence[KnowledgeBase]
    """Those that were searched."""
    failures: Mapping[str, KbError]
    """Why others were not, by KB id."""
    page: Page
    answered: Answered
    spu_charged: int
    timings_ms: Mapping[str, float]


class KnowledgeBaseSearch:
    """Searches KBs; made once a process."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        last_searched: LastSearched,
        query_log: QueryLog,
        *,
        exact_up_to_chunks: int,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._last_searched = last_searched
        self._query_log = query_log
        self._chunk_counts = ChunkCounts(database)
        self._knowledge_base: Gathering[Of, KnowledgeBase] = Gathering(finding(database, knowledge_bases.by_ids))
        self._exact_up_to_chunks = exact_up_to_chunks

    async def search(self, organization_id: str, kb_id: str, query: SearchQuery, asker: Asker) -> Answer:
        """Find the chunks of a KB that answer a query best, as they are at one moment; charge for its embedding.

        Raises:
            NotFound: no such KB, or it is being deleted.
            FilterError: the criteria can't be used.
            RequestError: 503 while an index that is needed can't be asked: there is no empty answer for that; 409 while
                it is brought up to date for a key; 422 if the provider refuses the text.
            TransientError: the provider or the database can't serve now.
        """
        return await self.search_several(organization_id, [kb_id], query, asker)

    async def search_several(
        self, organization_id: str, kb_ids: Sequence[str] | None, query: SearchQuery, asker: Asker
    ) -> Answer:
        """The same over several KBs, or all there are for None: their ranks are fused, whatever their models are.

        What goes wrong with one of them is told beside what the others answer; it is raised only if none does.
        """
        outcome = "failed"
        try:
            answer = await self._search(organization_id, kb_ids, query)
            outcome = "answered" if answer.page.hits else "nothing_found"
        except RequestError as error:
            outcome = "unavailable" if error.status == HTTPStatus.SERVICE_UNAVAILABLE else "refused"
            if isinstance(error, FilterError):
                SEARCH_FILTER_REJECTED.labels(error.reason).inc()
            raise
        except TransientError:
            outcome = "unavailable"
            raise
        finally:
            SEARCH_REQUESTS.labels(outcome).inc()
        SEARCH_RESULTS_COUNT.observe(len(answer.page.hits))
        self._note(organization_id, query, answer, asker)
        log.info(
            "search.answered",
            organization_id=organization_id,
            kb_ids=[kb.kb_id for kb in answer.kbs],
            mode=query.mode,
            results=len(answer.page.hits),
            failures=len(answer.failures),
            spu_charged=answer.spu_charged,
            duration_ms=answer.timings_ms["total"],
        )
        return answer

    def _note(self, organization_id: str, query: SearchQuery, answer: Answer, asker: Asker) -> None:
        if query.skip:
            return  # turning a page is no other question
        self._query_log.note(
            LoggedQuery(
                organization_id=organization_id,
                kb_ids=tuple(kb.kb_id for kb in answer.kbs),
                query=query.text,
                mode=query.mode,
                result_count=len(answer.page.hits),
                duration_ms=answer.timings_ms["total"],
                origin=asker.origin,
                key_id=asker.key_id,
                run_id=asker.run_id,
                asked_at=datetime.now(UTC),
            )
        )

    async def _search(self, organization_id: str, kb_ids: Sequence[str] | None, query: SearchQuery) -> Answer:
        stopwatch = Stopwatch()
        clauses = parse(query.criteria)
        failures: dict[str, KbError] = {}
        targets = await self._targets(organization_id, kb_ids, clauses, failures)
        spu_charged = 0
        if query.asks_vectors:
            with stopwatch.stage("embed"):
                embedded = await embed_query(self._embedder, query.text, [target.kb for target in targets])
            spu_charged = embedded.generated
            given = [(target, embedded.by_kb[target.kb.kb_id]) for target in targets]
            targets = [replace(target, vector=vector) for target, vector in _succeeded(given, failures)]
        read = await self._find(targets, query, failures, stopwatch)
        kbs = {target.kb.kb_id: target.kb for target in targets if target.kb.kb_id not in failures}
        if failures and not kbs:
            raise next(iter(failures.values()))
        for kb in kbs.values():
            self._last_searched.note(kb)
        answered = assemble(read.page.hits, read.neighbours, kbs, query, now=datetime.now(UTC))
        return Answer([*kbs.values()], failures, read.page, answered, spu_charged, stopwatch.finish())

    async def _targets(
        self,
        organization_id: str,
        kb_ids: Sequence[str] | None,
        clauses: Sequence[Clause],
        failures: MutableMapping[str, KbError],
    ) -> list[Target]:
        if kb_ids is None:
            kbs = {kb.kb_id: kb for kb in await knowledge_bases.of_organization(self._database, organization_id)}
            kb_ids = sorted(kbs)
        else:
            kbs = await self._those_there(organization_id, kb_ids)
        targets = []
        for kb_id in dict.fromkeys(kb_ids):
            try:
                targets.append(await self._target(knowledge_bases.require(kbs.get(kb_id)), clauses))
            except RequestError as error:
                failures[kb_id] = error
        return targets

    async def _those_there(self, organization_id: str, kb_ids: Sequence[str]) -> dict[str, KnowledgeBase]:
        """As they are now; searches of the same moment ask for theirs together."""
        # What no KB is called must not spoil the question of others.
        wanted = [Of(organization_id, kb_id) for kb_id in kb_ids if kb_id.isascii()]
        found = await asyncio.gather(*(self._knowledge_base(each) for each in wanted))
        return {kb.kb_id: kb for kb in found if kb is not None}

    async def _target(self, kb: KnowledgeBase, clauses: Sequence[Clause]) -> Target:
        chunk_count = await self._chunk_counts.of(kb)
        return Target(
            kb,
            vectors.chunks_of(self._database, kb),
            compile_filter(clauses, filterable_metadata=kb.filterable_metadata, being_built=kb.filters_building),
            [to_operator(clause) for clause in clauses],
            exact=chunk_count <= self._exact_up_to_chunks,
            small=chunk_count <= _SMALL_UP_TO_CHUNKS,
        )

    async def _find(
        self,
        targets: Sequence[Target],
        query: SearchQuery,
        failures: MutableMapping[str, KbError],
        stopwatch: Stopwatch,
    ) -> "_Read":
        limit = depth_for(query.wanted, fused=query.mode is Mode.HYBRID)
        words: dict[str, Mapping[str, float] | None] = {}
        while True:
            asked = await all_of(
                self._ask(target, query, limit, stopwatch, words.get(target.kb.kb_id)) for target in targets
            )
            ranked = _succeeded(zip(targets, asked, strict=True), failures)
            with stopwatch.stage("read"):
                read = await self._read(ranked, query, failures)
            page = read.page
            targets = [target for target, _ in ranked if target.kb.kb_id not in failures]
            if len(page.hits) == query.top_k or page.total_count_is_exact or limit == MOST_CANDIDATES:
                break
            # Chunks that were replaced or have left took the places of live ones: ask for more rather than answer less
            # than there is; at once for all there may be where nobody can tell how many have left.
            limit = MOST_CANDIDATES if any(one.doubtful for _, one in ranked) else limit * _WIDER
            limit = min(limit, MOST_CANDIDATES)
            words = {target.kb.kb_id: ranking.words for target, ranking in ranked}
        with_hits = {hit.kb_id for hit in page.hits}
        for target in targets:
            if target.kb.kb_id not in with_hits:
                await self._require(target.kb, failures)
        return read

    async def _ask(
        self,
        target: Target,
        query: SearchQuery,
        limit: int,
        stopwatch: Stopwatch,
        words: Mapping[str, float] | None,
    ) -> Ranking | KbError:
        try:
            return await ask(target, query, limit=limit, stopwatch=stopwatch, words=words)
        except RequestError as error:
            # The index may be gone because the KB is.
            failures: dict[str, KbError] = {}
            await self._require(target.kb, failures)
            return failures.get(target.kb.kb_id, error)

    async def _require(self, kb: KnowledgeBase, failures: MutableMapping[str, KbError]) -> None:
        """Note what else the lack of hits may mean: the KB has gone meanwhile."""
        try:
            await knowledge_bases.get(self._database, kb.organization_id, kb.kb_id)
        except NotFound as error:
            failures[kb.kb_id] = error

    async def _read(
        self, ranked: Sequence[tuple[Target, Ranking]], query: SearchQuery, failures: MutableMapping[str, KbError]
    ) -> "_Read":
        """Read hits; once more, if a collection was changed in a way that takes its past away.

        A KB that has gone with its collection is noted, and what is left is read.
        """
        try:
            return await self._read_at_one_moment(ranked, query)
        except OperationFailure as error:
            if error.code not in _SNAPSHOT_GONE:
                raise
        for target, _ in ranked:
            await self._require(target.kb, failures)
        left = [(target, ranking) for target, ranking in ranked if target.kb.kb_id not in failures]
        try:
            return await self._read_at_one_moment(left, query)
        except OperationFailure as error:
            if error.code not in _SNAPSHOT_GONE:
                raise
            raise TransientError("the collection keeps changing") from error

    async def _read_at_one_moment(self, ranked: Sequence[tuple[Target, Ranking]], query: SearchQuery) -> "_Read":
        async with self._database.client.start_session(snapshot=True) as session:
            snapshot = Snapshot(session)
            found = [
                await snapshot.hits(target, ranking, query, min_score=_min_score(target.kb, query))
                for target, ranking in ranked
            ]
            page = page_of(found, skip=query.skip, top_k=query.top_k)
            hits: dict[Place, Hit] = {}
            neighbours: dict[Place, Row] = {}
            for target, _ in ranked:
                own = [hit for hit in page.hits if hit.kb_id == target.kb.kb_id]
                hits |= {hit.place: hit for hit in await snapshot.with_relevance(target, own)}
                neighbours |= await snapshot.neighbours(target, own, width_of(target.kb, query))
        return _Read(replace(page, hits=[hits[hit.place] for hit in page.hits]), neighbours)


@dataclass(frozen=True, slots=True)
class _Read:
    page: Page
    neighbours: Mapping[Place, Row]


def _succeeded(
    outcomes: Iterable[tuple[Target, T | KbError]], failures: MutableMapping[str, KbError]
) -> list[tuple[Target, T]]:
    """Note those that failed, and give the others."""
    succeeded: list[tuple[Target, T]] = []
    for target, outcome in outcomes:
        if isinstance(outcome, KbError):
            failures[target.kb.kb_id] = outcome
        else:
            succeeded.append((target, outcome))
    return succeeded


def _min_score(kb: KnowledgeBase, query: SearchQuery) -> float | None:
    if query.mode is Mode.TEXT:
        return None
    return kb.min_score if query.min_score is None else query.min_score
