"""Search test: exactly the call that agents make, with why each result is where it is."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Settings, Visitor
from kb_console.pages import render_page
from kb_console.problems import describe_problem
from kb_console.text_pieces import mark_words
from kb_contracts.api.search import MAX_NEIGHBORS, MAX_QUERY_CHARACTERS, MAX_TOP_K, SearchResponse

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/knowledge-bases/{kb_id}/search")
async def search(
    request: Request,
    visit: Visitor,
    settings: Settings,
    kb_id: str,
    *,
    q: Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS)] = "",
    mode: Literal["hybrid", "vector", "text"] = "hybrid",
    top_k: Annotated[int, Query(ge=1, le=MAX_TOP_K)] = 5,
    neighbors: Annotated[int, Query(ge=0, le=MAX_NEIGHBORS)] = 0,
    absent: Annotated[str, Query(max_length=200)] = "",
) -> HTMLResponse:
    kb = await visit.api.knowledge_bases.get(kb_id)
    found: SearchResponse | None = None
    explained = problem = None
    if q.strip():
        try:
            found = await visit.api.knowledge_bases.search(
                kb_id, q, mode=mode, top_k=top_k, coalesce_neighbors=neighbors
            )
            if absent.strip():
                explained = await visit.api.knowledge_bases.explain_search(
                    kb_id, q, document_id=absent.strip(), mode=mode, top_k=top_k, coalesce_neighbors=neighbors
                )
        except ApiError as error:
            if error.status == 401:
                raise
            problem = describe_problem(error)
    return render_page(
        request,
        "search.html",
        part="_results.html",
        status_code=200 if problem is None else problem.status,
        kb=kb,
        found=found,
        explained=explained,
        problem=problem,
        q=q,
        mode=mode,
        top_k=top_k,
        neighbors=neighbors,
        absent=absent,
        modes=[("hybrid", "meaning and words"), ("vector", "meaning"), ("text", "words")],
        mark_words=mark_words,
        best=_best_scores(found),
        base_url=settings.base_url,
    )


def _best_scores(found: SearchResponse | None) -> dict[str, float]:
    """Return the best score of each kind, so that all bars of a kind have one scale."""
    scores = [] if found is None else [result.scores for result in found.results]
    return {
        "vector": 1.0,
        "text": max((each.text for each in scores if each.text is not None), default=0.0),
        "fused": max((each.fused for each in scores if each.fused is not None), default=0.0),
    }
