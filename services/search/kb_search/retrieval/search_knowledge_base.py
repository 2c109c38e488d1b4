"""The story of a search. Whoever searches, over HTTP or as a tool of a model, comes through here.

The search indexes give ids and scores; everything that is shown is read from one snapshot of the collections.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from time import perf_counter
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_search.filters.compile_filter import compile_filter, parse
from kb_search.filters.filter_clauses import Clause
from kb_search.filters.filter_errors import FilterError
from kb_search.filters.text_filter import to_operator
from kb_search.query_log import QueryLog
from kb_search.retrieval.chunk_counts import ChunkCounts
from kb_search.retrieval.hit_finder import HitFinder
from kb_search.retrieval.known_knowledge_bases import KnownKnowledgeBases
from kb_search.retrieval.last_searched import LastSearched
from kb_search.retrieval.legs import Target
from kb_search.retrieval.optimistic_read import OptimisticRead, StaleRead
from kb_search.retrieval.query import Asker, Mode, SearchQuery
from kb_search.retrieval.query_vectors import NoVector, embed_query
from kb_search.retrieval.results import KnowledgeBaseResults, assemble
from kb_search.retrieval.selection import Page
from kb_search.retrieval.spu_tally import SpuTally, tallied
from kb_search.retrieval.stopwatch import Stopwatch
from kb_search.store.query_log import LoggedQuery, Outcome
from kb_shared.embedding.embedder import Embedder
from kb_shared.errors import KbError, Parked, RequestError, TransientError
from kb_shared.http.authentication import CachedKey
from kb_shared.http.problems import as_request_error
from kb_shared.identifiers import is_kb_id
from kb_shared.mongo import knowledge_bases, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability.metrics import (
    SEARCH_FILTER_REJECTED,
    SEARCH_REQUESTS,
    SEARCH_RESTARTS,
    SEARCH_RESULTS_COUNT,
)

_SMALL_UP_TO_CHUNKS: Final = 1_000
_ATTEMPTS: Final = 5

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Answer:
    kbs: Sequence[KnowledgeBase]
    """KBs that were searched."""
    failures: Mapping[str, KbError]
    """Why others were not, by KB id."""
    page: Page
    answered: KnowledgeBaseResults
    spu_charged: int
    query_vector_cached: bool | None
    """True if the cache had the query's vectors for all models; None if no vector was used."""
    timings_ms: Mapping[str, float]
    by_words_alone: bool = False
    """The query has no vector for some of them, because of a provider: what was found there was found by its words."""


@dataclass(frozen=True, slots=True)
class _Logged:
    """Outcome of a search, for the log."""

    kb_ids: Sequence[str]
    outcome: Outcome
    result_count: int
    duration_ms: float


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
        vector_within_s: float,
    ) -> None:
        """Wire it.

        Args:
            database: that holds all but vectors of queries.
            embedder: of queries.
            last_searched: is told.
            query_log: is told.
            exact_up_to_chunks: of a KB whose vectors are all compared.
            vector_within_s: how long a hybrid search waits for the vector of its query.
        """
        self._database = database
        self._embedder = embedder
        self._last_searched = last_searched
        self._query_log = query_log
        self._chunk_counts = ChunkCounts(database)
        self._known = KnownKnowledgeBases(database)
        self._exact_up_to_chunks = exact_up_to_chunks
        self._vector_within_s = vector_within_s

    async def search(
        self, organization_id: str, kb_id: str, query: SearchQuery, asker: Asker, *, key: CachedKey | None
    ) -> Answer:
        """Find the chunks of a KB that answer a query best, as they are at one moment; charge for its embedding.

        Args:
            organization_id, kb_id: whose, and which.
            query: what for.
            asker: for the log.
            key: of the asker, which has to be what it is in the answer, too; None: whoever takes that has looked.

        Raises:
            NotFound: no such KB, or it is being deleted.
            FilterError: the criteria can't be used.
            RequestError: 503 while an index that is needed can't be asked: there is no empty answer for that; 409 while
                it is brought up to date for a key; 422 if the provider refuses the text.
            TransientError: the provider or the database can't serve now.
        """
        return await self.search_several(organization_id, [kb_id], query, asker, key=key)

    async def search_several(
        self,
        organization_id: str,
        kb_ids: Sequence[str] | None,
        query: SearchQuery,
        asker: Asker,
        *,
        key: CachedKey | None,
    ) -> Answer:
        """The same over several KBs, or all there are for None: their ranks are fused, whatever their models are.

        What goes wrong with one of them is told beside what the others answer; it is raised only if none does.
        """
        outcome: Outcome = "failed"
        began = perf_counter()
        try:
            answer = await self._search(organization_id, kb_ids, query, key)
            outcome = _outcome(answer)
        except Exception as error:
            outcome = _outcome_of(error)
            if isinstance(error, FilterError):
                SEARCH_FILTER_REJECTED.labels(error.reason).inc()
            if not _is_of_nobody(error):
                # What is no id may be as long as a path.
                named = [kb_id for kb_id in kb_ids or () if is_kb_id(kb_id)]
                failed = _Logged(named, outcome, 0, (perf_counter() - began) * 1_000)
                self._note(organization_id, query, failed, asker)
            raise
        finally:
            SEARCH_REQUESTS.labels(outcome).inc()
        results = len(answer.page.hits)
        SEARCH_RESULTS_COUNT.observe(results)
        answered = _Logged([kb.kb_id for kb in answer.kbs], outcome, results, answer.timings_ms["total"])
        self._note(organization_id, query, answered, asker)
        log.info(
            "search.answered",
            organization_id=organization_id,
            kb_ids=answered.kb_ids,
            mode=query.mode,
            results=results,
            failures=len(answer.failures),
            spu_charged=answer.spu_charged,
            duration_ms=answer.timings_ms["total"],
        )
        return answer

    def _note(self, organization_id: str, query: SearchQuery, logged: "_Logged", asker: Asker) -> None:
        if query.skip:
            return  # turning a page is no other question
        self._query_log.note(
            LoggedQuery(
                organization_id=organization_id,
                kb_ids=tuple(logged.kb_ids),
                query=query.text,
                mode=query.mode,
                outcome=logged.outcome,
                result_count=logged.result_count,
                duration_ms=logged.duration_ms,
                origin=asker.origin,
                key_id=asker.key_id,
                run_id=asker.run_id,
                asked_at=datetime.now(UTC),
            )
        )

    async def _search(
        self, organization_id: str, kb_ids: Sequence[str] | None, query: SearchQuery, key: CachedKey | None
    ) -> Answer:
        stopwatch = Stopwatch()
        with tallied() as tally:
            for attempt in range(_ATTEMPTS):
                optimistic_read = await self._optimistic_read(organization_id, kb_ids, key, again=attempt > 0)
                try:
                    return await self._search_on(optimistic_read, kb_ids, query, stopwatch, tally)
                except StaleRead:
                    pass
                except KbError:
                    if await optimistic_read.holds():
                        raise
                SEARCH_RESTARTS.inc()
                key = None if key is None else await key.look_again()
        raise TransientError("what is searched keeps changing")

    async def _optimistic_read(
        self, organization_id: str, kb_ids: Sequence[str] | None, key: CachedKey | None, *, again: bool
    ) -> OptimisticRead:
        known = None if again or kb_ids is None else self._known.those(organization_id, kb_ids)
        kbs = await self._known.look(organization_id, kb_ids) if known is None else known
        return OptimisticRead(self._known, organization_id, kbs, key, looked_at=known is None)

    async def _search_on(
        self,
        optimistic_read: OptimisticRead,
        kb_ids: Sequence[str] | None,
        query: SearchQuery,
        stopwatch: Stopwatch,
        tally: SpuTally,
    ) -> Answer:
        """Raises StaleRead; nothing is paid for on what was not looked at for this request."""
        failures: dict[str, KbError] = {}
        targets = await self._targets(optimistic_read.kbs, kb_ids, parse(query.criteria), failures)
        if query.asks_vectors:
            with stopwatch.stage("embed"):
                targets = await self._with_vectors(targets, query, optimistic_read, failures)
        read = await HitFinder(self._database, query, optimistic_read, failures, stopwatch).find(targets)
        # Where there was no snapshot to read, too.
        await optimistic_read.look()
        kbs = {target.kb.kb_id: target.kb for target in targets if target.kb.kb_id not in failures}
        if failures and not kbs:
            raise next(iter(failures.values()))
        for kb in kbs.values():
            self._last_searched.note(kb)
        answered = assemble(read.page.hits, read.neighbours, kbs, query, now=datetime.now(UTC))
        by_words_alone = query.asks_vectors and any(
            target.vector is None and target.kb.kb_id in kbs for target in targets
        )
        return Answer(
            [*kbs.values()],
            failures,
            read.page,
            answered,
            tally.spus,
            _is_cached(tally),
            stopwatch.finish(),
            by_words_alone,
        )

    async def _with_vectors(
        self,
        targets: Sequence[Target],
        query: SearchQuery,
        optimistic_read: OptimisticRead,
        failures: MutableMapping[str, KbError],
    ) -> list[Target]:
        """Give the targets the query's vector; where words may answer, too, a provider that is out is no failure."""
        words_may_answer = query.mode is Mode.HYBRID
        by_kb = await embed_query(
            self._embedder,
            query.text,
            [target.kb for target in targets],
            within_s=self._vector_within_s if words_may_answer else None,
            before_paying=optimistic_read.look,
        )
        given = []
        for target in targets:
            outcome = by_kb[target.kb.kb_id]
            if not isinstance(outcome, NoVector):
                given.append(replace(target, vector=outcome))
            elif words_may_answer and outcome.is_providers:
                log.warning("search.degraded", kb_id=target.kb.kb_id, error=type(outcome.error).__name__)
                given.append(target)
            else:
                failures[target.kb.kb_id] = outcome.error
        return given

    async def _targets(
        self,
        kbs: Mapping[str, KnowledgeBase],
        kb_ids: Sequence[str] | None,
        clauses: Sequence[Clause],
        failures: MutableMapping[str, KbError],
    ) -> list[Target]:
        targets = []
        for kb_id in dict.fromkeys(sorted(kbs) if kb_ids is None else kb_ids):
            try:
                targets.append(await self._target(knowledge_bases.require(kbs.get(kb_id)), clauses))
            except RequestError as error:
                failures[kb_id] = error
        return targets

    async def _target(self, kb: KnowledgeBase, clauses: Sequence[Clause]) -> Target:
        chunk_count = await self._chunk_counts.count_chunks(kb)
        return Target(
            kb,
            vectors.chunks_of(self._database, kb),
            compile_filter(clauses, filterable_metadata=kb.filterable_metadata, being_built=kb.filters_building),
            [to_operator(clause) for clause in clauses],
            exact=chunk_count <= self._exact_up_to_chunks,
            small=chunk_count <= _SMALL_UP_TO_CHUNKS,
        )


def _outcome(answer: Answer) -> Outcome:
    if answer.by_words_alone:
        return "degraded"
    return "answered" if answer.page.hits else "nothing_found"


def _is_cached(tally: SpuTally) -> bool | None:
    return tally.query_vectors_not_cached == 0 if tally.query_vectors else None


def _outcome_of(error: Exception) -> Outcome:
    match error:
        case RequestError() | TransientError() | Parked():
            is_passing = as_request_error(error).status == HTTPStatus.SERVICE_UNAVAILABLE
            return "unavailable" if is_passing else "refused"
        case PyMongoError():
            return "unavailable"
        case _:
            return "failed"


def _is_of_nobody(error: Exception) -> bool:
    """Return whether the key was refused: then the query is not logged as one of the organization."""
    return isinstance(error, RequestError) and error.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
