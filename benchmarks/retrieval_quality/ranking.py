"""Documents in the order in which searches find them."""

from typing import Final

from benchmarks.indexed_corpus import CorpusKnowledgeBase
from benchmarks.retrieval_quality.measures import DEPTH

_PAGE: Final = 20
_DEEPEST: Final = 1_000


async def rank(kb: CorpusKnowledgeBase, query: str, mode: str) -> list[str]:
    """The first ten documents, each where its best chunk is."""
    ranking: dict[str, None] = {}
    for skip in range(0, _DEEPEST, _PAGE):
        results = await kb.search(query, mode=mode, top_k=_PAGE, skip=skip)
        ranking.update(dict.fromkeys(result["document_id"] for result in results))
        if len(ranking) >= DEPTH or len(results) < _PAGE:
            break
    return list(ranking)[:DEPTH]
