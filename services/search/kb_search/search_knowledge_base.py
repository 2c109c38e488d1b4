"""The story of a search. Whoever searches, over HTTP or as a tool of a model, comes through here.

The search index gives ids and scores; everything that is shown is read from one snapshot of the collections.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import structlog
from pymongo.errors import OperationFailure

from kb_search.chunk_counts import ChunkCounts
from kb_search.filter_errors import FilterError
from kb_search.filters import Criteria, compile_filter, parse
from kb_search.last_searched import LastSearched
from kb_search.search_index import index_not_ready, refusals_explained, require_queryable
from kb_search.selection import Hit, Page, candidates_for, page_of, showable
from kb_search.stopwatch import Stopwatch
from kb_shared.embedding.embedder import Embedded, Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.vector import Vector
from kb_shared.errors import PermanentError, ProviderRefused, RequestError, TransientError, UnknownModel
from kb_shared.metrics import SEARCH_FILTER_REJECTED, SEARCH_REQUESTS, SEARCH_RESULTS_COUNT
from kb_shared.mongo import document_index, knowledge_bases, vectors
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.vectors import Chunks

MAX_TOP_K: Final = 20
MAX_SKIP: Final = 1_000

_MOST_CANDIDATES: Final = 10_000
_WIDER: Final = 4
_FOR_OPERATORS: Final = frozenset({"provider_auth", "provider_key_missing", "provider_quota"})
_SNAPSHOT_GONE: Final = frozenset({239, 246})  # SnapshotTooOld, SnapshotUnavailable

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SearchQuery:
    text: str
    top_k: int = 5
    skip: int = 0
    min_score: float | None = None
    """Of relevance; what the KB says when None."""
    criteria: Criteria = field(default_factory=Criteria)


@dataclass(frozen=True, slots=True)
class Answer:
    kb: KnowledgeBase
    page: Page
    spu_charged: int
    timings_ms: Mapping[str, float]


class KnowledgeBaseSearch:
    """Searches KBs; made once a process."""

    def __init__(
        self, database: Database, embedder: Embedder, last_searched: LastSearched, *, exact_up_to_chunks: int
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._last_searched = last_searched
        self._chunk_counts = ChunkCounts(database)
        self._exact_up_to_chunks = exact_up_to_chunks

    async def search(self, organization_id: str, kb_id: str, query: SearchQuery) -> Answer:
        """Find the chunks nearest to a text, as they are at one moment, and charge for its embedding.

        Raises:
            NotFound: no such KB, or it is being deleted.
            FilterError: the criteria can't be used.
            RequestError: 503 while the index can't be asked: there is no empty answer for that; 422 if the provider
                refuses the text.
            TransientError: the provider or the database can't serve now.
        """
        outcome = "failed"
        try:
            answer = await self._search(organization_id, kb_id, query)
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
        log.info(
            "search.answered",
            organization_id=organization_id,
            kb_id=kb_id,
            results=len(answer.page.hits),
            spu_charged=answer.spu_charged,
            duration_ms=answer.timings_ms["total"],
        )
        return answer

    async def _search(self, organization_id: str, kb_id: str, query: SearchQuery) -> Answer:
        stopwatch = Stopwatch()
        clauses = parse(query.criteria)
        kb = await knowledge_bases.get(self._database, organization_id, kb_id)
        query_filter = compile_filter(clauses, filterable_metadata=kb.filterable_metadata)
        if kb.status in (Status.CREATING, Status.BUILDING):
            raise index_not_ready()
        with stopwatch.stage("embed"):
            embedded = await self._embed(kb, query.text)
        page = await self._page(kb, query, query_filter, embedded.vectors[0], stopwatch)
        self._last_searched.note(kb)
        return Answer(kb, page, embedded.generated, stopwatch.finish())

    async def _embed(self, kb: KnowledgeBase, text: str) -> Embedded:
        purpose = Purpose(kb.organization_id, kb.kb_id, operation="search", input_type="query")
        try:
            return await self._embedder.embed(
                [text], model=kb.embedding_model, dimensions=kb.embedding_dimensions, purpose=purpose
            )
        except (ProviderRefused, UnknownModel) as error:
            raise _not_embedded(error) from error

    async def _page(
        self, kb: KnowledgeBase, query: SearchQuery, query_filter: Row, vector: Vector, stopwatch: Stopwatch
    ) -> Page:
        chunks = vectors.chunks_of(self._database, kb)
        exact = await self._chunk_counts.of(kb) <= self._exact_up_to_chunks
        min_score = kb.min_score if query.min_score is None else query.min_score
        limit = candidates_for(skip=query.skip, top_k=query.top_k)
        while True:
            with stopwatch.stage("vector"), refusals_explained():
                scores = await vectors.nearest(chunks, vector, limit=limit, query_filter=query_filter, exact=exact)
            with stopwatch.stage("read"):
                hits = await self._read(kb, chunks, scores, query_filter)
            exhausted = len(scores) < limit
            page = page_of(hits, skip=query.skip, top_k=query.top_k, min_score=min_score, exhausted=exhausted)
            if len(page.hits) == query.top_k or page.total_count_is_exact or limit == _MOST_CANDIDATES:
                break
            # Replaced chunks took the places of live ones: ask for more rather than answer less than there is.
            limit = min(limit * _WIDER, _MOST_CANDIDATES)
        if not hits:
            await self._make_sure_there_is_nothing(kb, chunks)
        return page

    async def _read(
        self, kb: KnowledgeBase, chunks: Chunks, scores: Mapping[str, float], query_filter: Row
    ) -> list[Hit]:
        """Read hits; once more, if the collection was changed in a way that takes its past away."""
        try:
            return await self._read_at_one_moment(chunks, scores, query_filter)
        except OperationFailure as error:
            if error.code not in _SNAPSHOT_GONE:
                raise
        await knowledge_bases.get(self._database, kb.organization_id, kb.kb_id)
        try:
            return await self._read_at_one_moment(chunks, scores, query_filter)
        except OperationFailure as error:
            if error.code not in _SNAPSHOT_GONE:
                raise
            raise TransientError("the collection keeps changing") from error

    async def _read_at_one_moment(self, chunks: Chunks, scores: Mapping[str, float], query_filter: Row) -> list[Hit]:
        if not scores:
            return []
        async with self._database.client.start_session(snapshot=True) as session:
            rows = await vectors.read(chunks, session, scores.keys(), query_filter=query_filter)
            documents = {row["document_id"] for row in rows.values()}
            indexed = await document_index.versions(
                self._database, session, chunks.organization_id, chunks.kb_id, documents
            )
        return showable(scores, rows, indexed)

    async def _make_sure_there_is_nothing(self, kb: KnowledgeBase, chunks: Chunks) -> None:
        """Raise what else the lack of hits may mean: the KB has gone meanwhile, or its index answers no queries."""
        await knowledge_bases.get(self._database, kb.organization_id, kb.kb_id)
        await require_queryable(chunks)


def _not_embedded(error: PermanentError) -> RequestError:
    if isinstance(error, UnknownModel) or error.error_type in _FOR_OPERATORS:
        return RequestError(
            503,
            "provider-refused",
            "The embedding provider can't be used with the model and key of this knowledge base; "
            "tell whoever runs this deployment.",
            retry_after_s=60,
        )
    return RequestError(422, "query-refused", "The embedding provider refuses this query; shorten or reword it.")
