"""The use case of a search, for HTTP, runs and MCP.

The steps, in order: choose the KBs and compile the filter, embed the query, query the indexes and read the hits in one
snapshot, check that the key and the KBs are unchanged, assemble the results. If the key or a KB has changed since the
search began, the search restarts. Each search is logged, also one that fails.
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
from kb_search.filters.resolve_names import resolve_names
from kb_search.filters.text_filter import to_operator
from kb_search.log_queries import QueryLog
from kb_search.retrieval.chunk_counts import ChunkCounts
from kb_search.retrieval.hit_finder import HitFinder
from kb_search.retrieval.knowledge_base_cache import KnowledgeBaseCache
from kb_search.retrieval.last_searched import LastSearched
from kb_search.retrieval.legs import SearchTarget
from kb_search.retrieval.optimistic_read import OptimisticRead, StaleRead
from kb_search.retrieval.query import Mode, SearchCaller, SearchQuery
from kb_search.retrieval.query_vectors import MissingVector, embed_query
from kb_search.retrieval.results import FittedResults, assemble_results
from kb_search.retrieval.selection import ResultPage
from kb_search.retrieval.spu_tally import SpuTally, tally_spus
from kb_search.retrieval.stopwatch import Stopwatch
from kb_shared.embedding.embedder import Embedder
from kb_shared.errors import KbError, Parked, RequestError, TransientError
from kb_shared.http.authentication import CachedKey
from kb_shared.http.problems import as_request_error
from kb_shared.identifiers import is_kb_id
from kb_shared.mongo import knowledge_bases, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.query_log import LoggedOutcome, LoggedQuery
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import (
    SEARCH_FILTER_REJECTED,
    SEARCH_REQUESTS,
    SEARCH_RESTARTS,
    SEARCH_RESULTS_COUNT,
)

_SMALL_UP_TO_CHUNKS: Final = 1_000
_MAX_ATTEMPTS: Final = 5

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Answer of a search over one KB or several."""

    kbs: Sequence[KnowledgeBase]
    """KBs that were searched."""
    failures: Mapping[str, KbError]
    """Errors of KBs that could not be searched, by KB id."""
    page: ResultPage
    fitted: FittedResults
    spu_charged: int
    query_vector_cached: bool | None
    """True if the cache had the query's vectors for all models; None if no vector was used."""
    timings_ms: Mapping[str, float]
    degraded: bool = False
    """True if some KBs were searched by the text leg alone, because a provider gave no vector of the query."""


@dataclass(frozen=True, slots=True)
class _SearchOutcome:
    """Outcome of a search, for the query log."""

    kb_ids: Sequence[str]
    outcome: LoggedOutcome
    result_count: int
    duration_ms: float


class KnowledgeBaseSearch:
    """Searches KBs. There is one in each process."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        *,
        last_searched: LastSearched,
        query_log: QueryLog,
        exact_up_to_chunks: int,
        vector_within_s: float,
    ) -> None:
        """Construct it.

        Args:
            database: Database of KBs and chunks.
            embedder: Embeds queries.
            last_searched: Records when a KB was searched.
            query_log: Records queries.
            exact_up_to_chunks: Number of chunks up to which a KB is searched by comparing all vectors.
            vector_within_s: Seconds that a hybrid search waits for the vector of its query.
        """
        self._database = database
        self._embedder = embedder
        self._last_searched = last_searched
        self._query_log = query_log
        self._chunk_counts = ChunkCounts(database)
        self._cache = KnowledgeBaseCache(database)
        self._exact_up_to_chunks = exact_up_to_chunks
        self._vector_within_s = vector_within_s

    async def search(
        self,
        kb: KnowledgeBaseKey,
        *,
        query: SearchQuery,
        search_caller: SearchCaller,
        key: CachedKey | None,
    ) -> SearchAnswer:
        """Find the chunks of a KB that match a query best, read at one point in time.

        Args:
            kb: KB to search.
            query: The query.
            search_caller: Caller, with the KBs to which its key is limited.
            key: API key of the caller, which is checked again when the hits are read; None if the caller of this
                method has read it for this request.

        Raises:
            NotFound: There is no such KB, or it is being deleted.
            FilterError: The criteria are invalid.
            RequestError: 503 if an index that is needed can't be queried; 409 while an index is updated for a new
                filterable key; 422 if the provider refuses the query.
            TransientError: The provider or the database is not available.
        """
        return await self.search_several(
            kb.organization_id, kb_ids=[kb.kb_id], query=query, search_caller=search_caller, key=key
        )

    async def search_several(
        self,
        organization_id: str,
        *,
        kb_ids: Sequence[str] | None,
        query: SearchQuery,
        search_caller: SearchCaller,
        key: CachedKey | None,
    ) -> SearchAnswer:
        """Search several KBs, or all of the organization for None; their hits are combined by rank.

        An error of one KB is in `failures` of the answer. It is raised only if no KB can be searched.
        """
        attributes = {"kb.organization_id": organization_id, "kb.search.mode": query.mode}
        with tracing.span(spans.SEARCH, attributes):
            return await self._search_and_log(
                organization_id, kb_ids=kb_ids, query=query, search_caller=search_caller, key=key
            )

    async def _search_and_log(
        self,
        organization_id: str,
        *,
        kb_ids: Sequence[str] | None,
        query: SearchQuery,
        search_caller: SearchCaller,
        key: CachedKey | None,
    ) -> SearchAnswer:
        outcome: LoggedOutcome = "failed"
        began = perf_counter()
        try:
            answer = await self._search_with_restarts(
                organization_id, kb_ids=kb_ids, query=query, limited_to=search_caller.kb_ids, key=key
            )
            outcome = _outcome_of_answer(answer)
        except Exception as error:
            outcome = _outcome_of_error(error)
            if isinstance(error, FilterError):
                SEARCH_FILTER_REJECTED.labels(error.reason).inc()
            if not _is_key_refused(error):
                # Other strings than ids may be as long as a path.
                named = [kb_id for kb_id in kb_ids or () if is_kb_id(kb_id)]
                failed = _SearchOutcome(named, outcome, 0, (perf_counter() - began) * 1_000)
                self._log_query(organization_id, query, outcome=failed, search_caller=search_caller)
            raise
        finally:
            SEARCH_REQUESTS.labels(outcome).inc()
            tracing.annotate({"kb.search.outcome": outcome})
        result_count = len(answer.page.hits)
        SEARCH_RESULTS_COUNT.observe(result_count)
        answered = _SearchOutcome([kb.kb_id for kb in answer.kbs], outcome, result_count, answer.timings_ms["total"])
        self._log_query(organization_id, query, outcome=answered, search_caller=search_caller)
        tracing.annotate(
            {"kb.kb_ids": answered.kb_ids, "kb.search.results": result_count, "kb.spus": answer.spu_charged}
        )
        log.info(
            "search.answered",
            organization_id=organization_id,
            kb_ids=answered.kb_ids,
            mode=query.mode,
            results=result_count,
            failures=len(answer.failures),
            spu_charged=answer.spu_charged,
            duration_ms=answer.timings_ms["total"],
        )
        return answer

    def _log_query(
        self, organization_id: str, query: SearchQuery, *, outcome: _SearchOutcome, search_caller: SearchCaller
    ) -> None:
        if query.skip or not search_caller.is_logged:
            return  # only the first page of a search is logged
        self._query_log.add_query(
            LoggedQuery(
                organization_id=organization_id,
                kb_ids=tuple(outcome.kb_ids),
                query=query.text,
                mode=query.mode,
                outcome=outcome.outcome,
                result_count=outcome.result_count,
                duration_ms=outcome.duration_ms,
                origin=search_caller.origin,
                key_id=search_caller.key_id,
                run_id=search_caller.run_id,
                agent_id=search_caller.agent_id,
                asked_at=datetime.now(UTC),
            )
        )

    async def _search_with_restarts(
        self,
        organization_id: str,
        *,
        kb_ids: Sequence[str] | None,
        query: SearchQuery,
        limited_to: frozenset[str] | None,
        key: CachedKey | None,
    ) -> SearchAnswer:
        stopwatch = Stopwatch()
        with tally_spus() as tally:
            for attempt in range(_MAX_ATTEMPTS):
                optimistic_read = await self._begin_optimistic_read(
                    organization_id, kb_ids=kb_ids, limited_to=limited_to, key=key, again=attempt > 0
                )
                try:
                    return await self._search_once(
                        optimistic_read, kb_ids, query=query, stopwatch=stopwatch, tally=tally
                    )
                except StaleRead:
                    pass
                except KbError:
                    if await optimistic_read.is_current():
                        raise
                SEARCH_RESTARTS.inc()
                key = None if key is None else await key.read_again()
        raise TransientError("the API key or the knowledge base changed during each attempt of this search")

    async def _begin_optimistic_read(
        self,
        organization_id: str,
        *,
        kb_ids: Sequence[str] | None,
        limited_to: frozenset[str] | None,
        key: CachedKey | None,
        again: bool,
    ) -> OptimisticRead:
        if limited_to is not None:
            kb_ids = [kb_id for kb_id in sorted(limited_to) if kb_ids is None or kb_id in kb_ids]
        cached = None if again or kb_ids is None else self._cache.find_cached(organization_id, kb_ids=kb_ids)
        kbs = await self._cache.read_current(organization_id, kb_ids=kb_ids) if cached is None else cached
        return OptimisticRead(self._cache, organization_id, kbs=kbs, key=key, is_confirmed=cached is None)

    async def _search_once(
        self,
        optimistic_read: OptimisticRead,
        kb_ids: Sequence[str] | None,
        *,
        query: SearchQuery,
        stopwatch: Stopwatch,
        tally: SpuTally,
    ) -> SearchAnswer:
        """Search once. Raises StaleRead. Before anything is paid for, the key and the KBs are read for this request."""
        failures: dict[str, KbError] = {}
        clauses = await resolve_names(
            self._database,
            optimistic_read.organization_id,
            kb_ids=[*optimistic_read.kbs],
            clauses=parse(query.criteria),
        )
        targets = await self._build_targets(optimistic_read.kbs, kb_ids, clauses=clauses, failures=failures)
        if query.uses_vectors:
            with stopwatch.stage("embed"):
                targets = await self._add_vectors(targets, query, optimistic_read=optimistic_read, failures=failures)
        found = await HitFinder(self._database, query, optimistic_read, failures, stopwatch).find(targets)
        # If nothing was read in a snapshot, they were not checked yet.
        await optimistic_read.confirm()
        kbs = {target.kb.kb_id: target.kb for target in targets if target.kb.kb_id not in failures}
        if failures and not kbs:
            raise next(iter(failures.values()))
        for kb in kbs.values():
            self._last_searched.record_search(kb)
        fitted = assemble_results(found.page.hits, found.neighbours, kbs=kbs, query=query, now=datetime.now(UTC))
        degraded = query.uses_vectors and any(target.vector is None and target.kb.kb_id in kbs for target in targets)
        return SearchAnswer(
            [optimistic_read.show(kb) for kb in kbs.values()],
            failures,
            found.page,
            fitted,
            tally.spus,
            _is_cached(tally),
            stopwatch.finish(),
            degraded,
        )

    async def _add_vectors(
        self,
        targets: Sequence[SearchTarget],
        query: SearchQuery,
        *,
        optimistic_read: OptimisticRead,
        failures: MutableMapping[str, KbError],
    ) -> list[SearchTarget]:
        """Add the query's vector to the targets. In hybrid mode, a target without one uses the text leg alone."""
        may_degrade = query.mode is Mode.HYBRID
        by_kb = await embed_query(
            self._embedder,
            query.text,
            [target.kb for target in targets],
            within_s=self._vector_within_s if may_degrade else None,
            before_paying=optimistic_read.confirm,
        )
        with_vectors = []
        for target in targets:
            outcome = by_kb[target.kb.kb_id]
            if not isinstance(outcome, MissingVector):
                with_vectors.append(replace(target, vector=outcome))
            elif may_degrade and outcome.is_provider_failure:
                log.warning("search.degraded", kb_id=target.kb.kb_id, error=type(outcome.error).__name__)
                with_vectors.append(target)
            else:
                failures[target.kb.kb_id] = outcome.error
        return with_vectors

    async def _build_targets(
        self,
        kbs: Mapping[str, KnowledgeBase],
        kb_ids: Sequence[str] | None,
        *,
        clauses: Sequence[Clause],
        failures: MutableMapping[str, KbError],
    ) -> list[SearchTarget]:
        targets = []
        for kb_id in dict.fromkeys(sorted(kbs) if kb_ids is None else kb_ids):
            try:
                targets.append(await self._build_target(knowledge_bases.require(kbs.get(kb_id)), clauses))
            except RequestError as error:
                failures[kb_id] = error
        return targets

    async def _build_target(self, kb: KnowledgeBase, clauses: Sequence[Clause]) -> SearchTarget:
        chunk_count = await self._chunk_counts.count_chunks(kb)
        return SearchTarget(
            kb,
            vectors.chunks_of(self._database, kb),
            compile_filter(clauses, filterable_metadata=kb.filterable_metadata, being_built=kb.filters_building),
            [to_operator(clause) for clause in clauses],
            exact=chunk_count <= self._exact_up_to_chunks,
            is_small=chunk_count <= _SMALL_UP_TO_CHUNKS,
        )


def _outcome_of_answer(answer: SearchAnswer) -> LoggedOutcome:
    if answer.degraded:
        return "degraded"
    return "answered" if answer.page.hits else "nothing_found"


def _is_cached(tally: SpuTally) -> bool | None:
    return tally.query_vectors_not_cached == 0 if tally.query_vectors else None


def _outcome_of_error(error: Exception) -> LoggedOutcome:
    match error:
        case RequestError() | TransientError() | Parked():
            is_temporary = as_request_error(error).status == HTTPStatus.SERVICE_UNAVAILABLE
            return "unavailable" if is_temporary else "refused"
        case PyMongoError():
            return "unavailable"
        case _:
            return "failed"


def _is_key_refused(error: Exception) -> bool:
    """Return whether the key was refused: then the query is not logged as one of the organization."""
    return isinstance(error, RequestError) and error.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
