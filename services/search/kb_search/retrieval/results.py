"""Builds the results of a page: matches with their neighbours, within the token budget of the query. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kb_contracts.api.search import MAX_COPIES, Strength
from kb_search.retrieval.coalescing import ChunkPosition, group_with_neighbours
from kb_search.retrieval.context_budget import BudgetedPassage, fit_passages
from kb_search.retrieval.fusion import best_possible
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.selection import Hit
from kb_search.retrieval.strength import SCALES, WordShare, judge, never_rising, strongest
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vectors import STORED_CHUNKS, StoredChunk
from kb_shared.text.text_normalization import SPELLED


@dataclass(frozen=True, slots=True)
class Result:
    kb: KnowledgeBase
    chunk: StoredChunk
    hit: Hit | None
    """The hit; None for a neighbour."""
    text: str
    tokens: int
    truncated: bool
    similarity: float
    """Similarity of the best match of its group, 0 to 1; used to decide what fits into the budget."""
    strength: Strength = "weak"
    """Strength of the best match of its group; it never rises from one result to the next."""
    score: float = 0.0
    """Score of the best match of its group, as a part of the best that is possible; results fall by it."""

    @property
    def also_in(self) -> list[dict[str, str]]:
        """Return the fields of `PassageCopy` of the first of the other chunks with the same text."""
        return [
            {
                "kb_id": copy.kb_id,
                "document_id": copy.chunk["document_id"],
                "source": copy.chunk["document_name"],
                "chunk_id": copy.chunk["_id"],
            }
            for copy in (self.hit.copies[:MAX_COPIES] if self.hit else ())
        ]


@dataclass(frozen=True, slots=True)
class FittedResults:
    """Results that fit into the token budget."""

    results: Sequence[Result]
    omitted_count: int
    total_tokens: int


def neighbour_width(kb: KnowledgeBase, query: SearchQuery) -> int:
    """Return the number of neighbours on either side of a match."""
    return kb.coalesce_neighbors if query.coalesce_neighbors is None else query.coalesce_neighbors


def assemble_results(
    hits: Sequence[Hit],
    neighbours: Mapping[ChunkPosition, Row],
    *,
    kbs: Mapping[str, KnowledgeBase],
    query: SearchQuery,
    now: datetime,
) -> FittedResults:
    """Return the results of a page in their order.

    Args:
        hits: Matches, best first.
        neighbours: Chunks beside the matches.
        kbs: KBs by id.
    """
    results = _order_results(hits, neighbours, kbs=kbs, query=query)
    if query.max_tokens is None:
        return FittedResults(results, 0, sum(result.tokens for result in results))
    passages = [
        BudgetedPassage(result.text, result.tokens, result.similarity, result.chunk.upload_date) for result in results
    ]
    fitted = fit_passages(passages, max_tokens=query.max_tokens, prioritize_by=query.prioritize_by, now=now)
    kept = [
        replace(results[one.position], text=one.text, tokens=one.tokens, truncated=one.truncated) for one in fitted.kept
    ]
    return FittedResults(kept, fitted.omitted_count, fitted.total_tokens)


def _order_results(
    hits: Sequence[Hit],
    neighbours: Mapping[ChunkPosition, Row],
    *,
    kbs: Mapping[str, KnowledgeBase],
    query: SearchQuery,
) -> list[Result]:
    """Order groups by their best match; a group is in the order of its document.

    A document can be in several KBs and have matches in each. A chunk that is a match in one KB is then not repeated as
    a neighbour in another, and a neighbour of several groups is returned with the best of them.
    """
    matched = {hit.position: hit for hit in hits}
    rank = {position: number for number, position in enumerate(matched)}
    found: list[list[ChunkPosition]] = []
    for kb in kbs.values():
        positions = [position for position in matched if position.kb_id == kb.kb_id]
        found += group_with_neighbours(
            positions, [position for position in neighbours if position.kb_id == kb.kb_id], neighbour_width(kb, query)
        )
    found.sort(key=lambda group: min(rank[position] for position in group if position in rank))
    best = max((hit.scores.fused for hit in hits), default=0.0)
    possible = best_possible(query.text, with_vectors=query.uses_vectors, with_text=query.uses_text)
    matches = {hit.chunk["_id"] for hit in hits}
    of_hits = _judge_hits(hits, kbs=kbs, query=query)
    strengths = never_rising(
        strongest(of_hits[position] for position in group if position in of_hits) for group in found
    )
    returned_neighbours: set[str] = set()
    results = []
    for group, strength in zip(found, strengths, strict=True):
        similarity = max(_similarity(matched[position], best) for position in group if position in matched)
        score = max(matched[position].scores.fused for position in group if position in matched) / possible
        for position in group:
            hit = matched.get(position)
            chunk = neighbours[position] if hit is None else hit.chunk
            if hit is None and (chunk["_id"] in matches or chunk["_id"] in returned_neighbours):
                continue
            returned_neighbours.add(chunk["_id"])
            stored = STORED_CHUNKS.read(chunk)
            results.append(
                Result(
                    kbs[position.kb_id],
                    stored,
                    hit,
                    stored.text,
                    stored.token_count,
                    truncated=False,
                    similarity=similarity,
                    strength=strength,
                    score=min(score, 1.0),
                )
            )
    return results


def _judge_hits(
    hits: Sequence[Hit], *, kbs: Mapping[str, KnowledgeBase], query: SearchQuery
) -> dict[ChunkPosition, Strength]:
    word_share = WordShare(query.text)
    strengths = {}
    for hit in hits:
        kb = kbs[hit.kb_id]
        share = word_share.share_in(
            (*hit.chunk.get("heading_path", ()), hit.chunk["chunk_text"]),
            analyzer=kb.text_analyzer,
            has_spellings=kb.text_normalization == SPELLED,
        )
        strengths[hit.position] = judge(
            share,
            words=word_share.count_words(kb.text_analyzer),
            is_identifier=word_share.is_identifier,
            relevance=hit.relevance,
            scale=SCALES.get(kb.embedding_model),
            rank=hit.scores.vector_rank,
        )
    return strengths


def _similarity(hit: Hit, best: float) -> float:
    # Without a relevance, the fused score is used, relative to the best.
    return hit.relevance if hit.relevance is not None else hit.scores.fused / best
