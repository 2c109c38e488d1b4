"""Explains why a document is, or is not, among the results of a search.

The search itself is made first, so the explanation is of what callers get. If the document is not among its results,
the checks follow in the order in which a search drops a document: membership, the filter, the rankings, the minimum.
Ranks are those among all chunks: both indexes are asked without the filter for the greatest number that they return.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace

from kb_contracts.api.search_explanations import MAX_RANK, AbsenceReason
from kb_search.filters.compile_filter import Criteria, parse
from kb_search.filters.filter_clauses import Clause, to_mql
from kb_search.filters.resolve_names import resolve_names
from kb_search.retrieval.fusion import TEXT_ONLY_WEIGHTS, WEIGHTS, classify_query, fuse
from kb_search.retrieval.query import SearchCaller, SearchQuery
from kb_search.retrieval.query_vectors import MissingVector, embed_query
from kb_search.retrieval.search_index import map_index_errors
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch, SearchAnswer
from kb_search.retrieval.strength import min_relevance
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.embedding.embedder import Embedder
from kb_shared.errors import NotFound
from kb_shared.membership import belongs
from kb_shared.mongo import document_index, documents, index_queries, knowledge_bases, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vectors import Chunks, document_of


@dataclass(frozen=True, slots=True)
class DocumentRank:
    """Rank of the best chunk of a document; None for both if it was not found."""

    rank: int | None
    score: float | None


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks in each leg and after fusion; None for a leg that was not asked."""

    vector: DocumentRank | None
    text: DocumentRank | None
    fused: DocumentRank | None


@dataclass(frozen=True, slots=True)
class SearchExplanation:
    reason: AbsenceReason
    detail: str
    position: int | None
    ranks: Ranks
    filtered_out_by: tuple[str, ...]
    min_score: float | None
    spu_charged: int


class SearchExplainer:
    """Explains searches. There is one in each process."""

    def __init__(self, database: Database, search: KnowledgeBaseSearch, embedder: Embedder) -> None:
        self._database = database
        self._search = search
        self._embedder = embedder

    async def explain(
        self, key: MembershipKey, *, query: SearchQuery, search_caller: SearchCaller
    ) -> SearchExplanation:
        """Explain a search of one KB for one document. The search is not logged.

        Raises:
            NotFound: There is no such KB, or no such document that the caller may know of.
            RequestError, TransientError: The search can't be made.
        """
        kb = await knowledge_bases.get(self._database, key.knowledge_base)
        indexed = await document_index.find(self._database, key)
        not_indexed = None if indexed else await self._explain_membership(key, kb, search_caller)
        answer = await self._search.search(
            key.knowledge_base, query=query, search_caller=replace(search_caller, is_logged=False), key=None
        )
        ranks = await self._rank(kb, key.document_id, query=query)
        filtered_out_by = tuple([name async for name in self._find_unmet(kb, key.document_id, query.criteria)])
        min_score = min_relevance(kb, query)
        position = _position(answer, key.document_id)
        reason, detail = decide_reason(
            position=position,
            not_indexed=not_indexed,
            is_empty=indexed is not None and indexed.chunk_count == 0,
            filtered_out_by=filtered_out_by,
            ranks=ranks,
            min_score=min_score,
            query=query,
        )
        return SearchExplanation(
            reason, detail, position, ranks, filtered_out_by, min_score, spu_charged=answer.spu_charged
        )

    async def _explain_membership(self, key: MembershipKey, kb: KnowledgeBase, search_caller: SearchCaller) -> str:
        document = await documents.find(self._database, key.document)
        # A key that is limited to KBs must not find out which other documents the organization has.
        if document is None or search_caller.kb_ids is not None:
            raise NotFound("document")
        if document.text is None:
            return "It was deleted, or its text has not arrived."
        if not belongs(document, kb):
            return "It has none of the tags of this knowledge base."
        return "It belongs to this knowledge base and is not indexed yet; explain of the document says why."

    async def _rank(self, kb: KnowledgeBase, document_id: str, *, query: SearchQuery) -> Ranks:
        chunks = vectors.chunks_of(self._database, kb)
        by_vector, by_text = await run_all([self._score_vectors(kb, chunks, query), _score_texts(kb, chunks, query)])
        weights = TEXT_ONLY_WEIGHTS if by_vector is None else WEIGHTS
        fused = fuse(by_vector or {}, by_text or {}, weights[classify_query(query.text)])
        in_both = {candidate.chunk_id: candidate.fused for candidate in fused}
        return Ranks(
            None if by_vector is None else find_rank(by_vector, document_id),
            None if by_text is None else find_rank(by_text, document_id),
            find_rank(in_both, document_id) if in_both else None,
        )

    async def _score_vectors(self, kb: KnowledgeBase, chunks: Chunks, query: SearchQuery) -> Mapping[str, float] | None:
        if not query.uses_vectors:
            return None
        # The search has just embedded it: the vector comes from the cache.
        vector = (await embed_query(self._embedder, query.text, [kb], within_s=None, before_paying=_may_pay))[kb.kb_id]
        if isinstance(vector, MissingVector):
            return None
        with map_index_errors():
            return await index_queries.query_vector_index(chunks, vector, limit=MAX_RANK, query_filter={}, exact=True)

    async def _find_unmet(self, kb: KnowledgeBase, document_id: str, criteria: Criteria) -> AsyncIterator[str]:
        chunks = vectors.chunks_of(self._database, kb)
        for name, parsed in named_conditions(criteria):
            clauses = await resolve_names(self._database, kb.organization_id, kb_ids=[kb.kb_id], clauses=parsed)
            of_document = {**chunks.filter_document(document_id), "until": None}
            met = {"$and": [to_mql(clause) for clause in clauses]}
            if await chunks.collection.find_one({**of_document, **met}, {"_id": 1}) is None:
                yield name


async def _may_pay() -> None:
    """Let the query be embedded: the search before has read the key and the KB."""


async def _score_texts(kb: KnowledgeBase, chunks: Chunks, query: SearchQuery) -> Mapping[str, float] | None:
    if not query.uses_text:
        return None
    words = query.words_for_index(kb.text_normalization)
    with map_index_errors():
        return await index_queries.query_text_index(chunks, words, limit=MAX_RANK, filters=[])


def named_conditions(criteria: Criteria) -> Iterator[tuple[str, list[Clause]]]:
    """Yield the conditions of a request one by one, each with the name of its field."""
    for name in ("document_ids", "tag_ids", "upload_date_from", "upload_date_to"):
        if value := getattr(criteria, name):
            yield name, parse(Criteria(**{name: value}))
    for key, condition in (criteria.metadata_filter or {}).items():
        yield f"metadata_filter.{key}", parse(Criteria(metadata_filter={key: condition}))


def find_rank(scores: Mapping[str, float], document_id: str) -> DocumentRank:
    """Return the rank of the best chunk of a document among `scores`: one more than there are better ones."""
    own = [score for chunk_id, score in scores.items() if document_of(chunk_id) == document_id]
    if not own:
        return DocumentRank(None, None)
    best = max(own)
    return DocumentRank(1 + sum(score > best for score in scores.values()), best)


def decide_reason(
    *,
    position: int | None,
    not_indexed: str | None,
    is_empty: bool,
    filtered_out_by: tuple[str, ...],
    ranks: Ranks,
    min_score: float | None,
    query: SearchQuery,
) -> tuple[AbsenceReason, str]:
    """Decide why a document is not among the results, by the first reason that applies, and say so in words."""
    if position is not None:
        return "in_results", f"It, or a passage with the same text, is among the results, at position {position}."
    if not_indexed is not None:
        return "not_in_knowledge_base", not_indexed
    if is_empty:
        return "not_found", "It is indexed, and has no text to find."
    if filtered_out_by:
        return "filtered_out", f"No part of it meets these conditions of the request: {', '.join(filtered_out_by)}."
    return _explain_rank(ranks, min_score, query=query)


def _explain_rank(ranks: Ranks, min_score: float | None, *, query: SearchQuery) -> tuple[AbsenceReason, str]:
    legs = [leg for leg in (ranks.vector, ranks.text) if leg is not None]
    if all(leg.rank is None for leg in legs):
        return _explain_missing(ranks)
    has_words = ranks.text is not None and ranks.text.rank is not None
    relevance = None if ranks.vector is None else ranks.vector.score
    if not has_words and min_score is not None and relevance is not None and relevance < min_score:
        return "below_min_score", (
            f"Its best part has the relevance {relevance:.3f}, below the minimum of {min_score:g}, and contains no "
            "word of the query. Lower min_score."
        )
    rank = "" if ranks.fused is None or ranks.fused.rank is None else f" Its best part has rank {ranks.fused.rank}."
    return "beyond_page", (
        f"Other parts of the knowledge base are better matches than the {query.matches_needed} that were asked for, or "
        f"max_tokens leaves no room for it.{rank} Raise top_k, or restrict the search by a filter."
    )


def _explain_missing(ranks: Ranks) -> tuple[AbsenceReason, str]:
    if ranks.vector is None:
        return "not_found", "It contains none of the words of the query. Search with mode hybrid or vector."
    return "not_searchable_yet", (
        "The search indexes do not have it yet: they lag by a second or more. In a knowledge base of more than "
        f"{MAX_RANK} chunks it may also be that as many are more similar."
    )


def _position(answer: SearchAnswer, document_id: str) -> int | None:
    hits = [result.hit for result in answer.fitted.results if result.hit is not None]
    shown = [{one.chunk["document_id"] for one in (hit, *hit.copies)} for hit in hits]
    return next((n for n, documents in enumerate(shown, 1) if document_id in documents), None)
