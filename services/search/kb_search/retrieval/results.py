"""From the matches of a page to what is answered: their neighbours beside them, as much as the budget has room for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kb_search.retrieval.coalescing import ChunkPosition, groups
from kb_search.retrieval.context_budget import BudgetedPassage, fit
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.selection import Hit
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase


@dataclass(frozen=True, slots=True)
class Result:
    kb: KnowledgeBase
    chunk: Row
    hit: Hit | None
    """None of a neighbour."""
    text: str
    tokens: int
    truncated: bool
    likeness: float
    """Similarity of the best match of its group, 0 to 1: the order in which a budget is spent."""


@dataclass(frozen=True, slots=True)
class KnowledgeBaseResults:
    results: Sequence[Result]
    omitted_count: int
    total_tokens: int


def width_of(kb: KnowledgeBase, query: SearchQuery) -> int:
    """How many neighbours on either side."""
    return kb.coalesce_neighbors if query.coalesce_neighbors is None else query.coalesce_neighbors


def assemble(
    hits: Sequence[Hit],
    neighbours: Mapping[ChunkPosition, Row],
    kbs: Mapping[str, KnowledgeBase],
    query: SearchQuery,
    *,
    now: datetime,
) -> KnowledgeBaseResults:
    """Give the results of a page in their order.

    Args:
        hits: the matches, best first.
        neighbours: chunks beside them.
        kbs: by id.
    """
    results = _in_order(hits, neighbours, kbs, query)
    if query.max_tokens is None:
        return KnowledgeBaseResults(results, 0, sum(result.tokens for result in results))
    passages = [
        BudgetedPassage(result.text, result.tokens, result.likeness, result.chunk["upload_date"]) for result in results
    ]
    fitted = fit(passages, max_tokens=query.max_tokens, prioritize_by=query.prioritize_by, now=now)
    kept = [
        replace(results[one.position], text=one.text, tokens=one.tokens, truncated=one.truncated) for one in fitted.kept
    ]
    return KnowledgeBaseResults(kept, fitted.omitted_count, fitted.total_tokens)


def _in_order(
    hits: Sequence[Hit], neighbours: Mapping[ChunkPosition, Row], kbs: Mapping[str, KnowledgeBase], query: SearchQuery
) -> list[Result]:
    """Groups by their best match; in a group as in the document.

    A document in several KBs can have matches of each: a chunk that is a match in one is no neighbour in another, and a
    neighbour comes with the best group it stands in.
    """
    matched = {hit.place: hit for hit in hits}
    rank = {place: number for number, place in enumerate(matched)}
    found: list[list[ChunkPosition]] = []
    for kb in kbs.values():
        places = [place for place in matched if place.kb_id == kb.kb_id]
        found += groups(places, [place for place in neighbours if place.kb_id == kb.kb_id], width_of(kb, query))
    found.sort(key=lambda group: min(rank[place] for place in group if place in rank))
    best = max((hit.scores.fused for hit in hits), default=0.0)
    matches = {hit.chunk["_id"] for hit in hits}
    told: set[str] = set()
    results = []
    for group in found:
        likeness = max(_likeness(matched[place], best) for place in group if place in matched)
        for place in group:
            hit = matched.get(place)
            chunk = neighbours[place] if hit is None else hit.chunk
            if hit is None and (chunk["_id"] in matches or chunk["_id"] in told):
                continue
            told.add(chunk["_id"])
            text, tokens = chunk["chunk_text"], chunk["token_count"]
            results.append(Result(kbs[place.kb_id], chunk, hit, text, tokens, truncated=False, likeness=likeness))
    return results


def _likeness(hit: Hit, best: float) -> float:
    # Without vectors, the rank is all there is.
    return hit.relevance if hit.relevance is not None else hit.scores.fused / best
