"""Search test: exactly the call that agents make, with why each result is where it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_client import AsyncClient
from kb_client.errors import ApiError
from kb_client.unset import UNSET
from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Settings, Visit, Visitor
from kb_console.documents.document_choices import find_document_id
from kb_console.errors import UnusableForm
from kb_console.pages import is_partial, render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_console.search.absence_words import explain_in_words
from kb_console.search.code_samples import ShownSearch, list_samples
from kb_console.search.search_options import (
    MODES,
    OPERATORS,
    PRIORITIES,
    ComparedOptions,
    FilterRow,
    GivenComparison,
    GivenOptions,
    SearchOptions,
)
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_contracts.api.search import Results, SearchResponse, SearchResult, SearchSeveralResponse
from kb_contracts.api.search_explanations import SearchExplanationView
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

_MOST_CHOICES: Final = 100
_GONE: Final = 404

router = APIRouter(prefix=OF_ORGANIZATION)


@dataclass(frozen=True, slots=True)
class SearchTestOutcome:
    """Results of the searches of a page."""

    found: SearchResponse | None = None
    other: SearchResponse | None = None
    """Results of the second search of a comparison."""
    explained: SearchExplanationView | None = None
    unexplained: ShownProblem | None = None
    """Reason why it can't be said why a document is not among the results."""
    problem: ShownProblem | None = None


@router.get("/knowledge-bases/{kb_id}/search")
async def search(
    request: Request,
    visit: Visitor,
    settings: Settings,
    kb_id: str,
    *,
    options: GivenOptions,
    compared: GivenComparison,
    absent: Annotated[str, Query(max_length=200)] = "",
) -> HTMLResponse:
    document_id, unnamed = await _find_absent(visit, absent.strip(), kb_id=kb_id)
    (kb, choices), outcome, other_kb = await run_three_or_cancel(
        _read_choices(visit.api, kb_id, with_choices=not is_partial(request)),
        _search(visit.api, kb_id, options=options, compared=compared, absent=document_id),
        _read_other(visit.api, compared),
    )
    shown = ShownSearch(settings.base_url, visit.session.organization_id, kb_id, options.q, options.arguments())
    problem = outcome.problem or unnamed
    explained = outcome.explained
    return render_page(
        request,
        "search.html",
        part="_results.html",
        status_code=200 if problem is None else problem.status,
        kb=kb,
        other_kb=other_kb,
        outcome=outcome,
        problem=problem,
        compared=compared,
        absent=absent,
        explanation=None if explained is None else explain_in_words(explained),
        equal=find_equal_hits(outcome.found, outcome.other),
        samples=list_samples(shown),
        **choices,
        **_form_values(options),
        **_result_values(outcome.found, outcome.other),
    )


@router.get("/search")
async def search_several(
    request: Request,
    visit: Visitor,
    settings: Settings,
    *,
    options: GivenOptions,
    kb_ids: Annotated[Sequence[str], Query(max_length=_MOST_CHOICES)] = (),
) -> HTMLResponse:
    known, (found, problem) = await run_two_or_cancel(
        visit.api.knowledge_bases.list(limit=_MOST_CHOICES), _search_several(visit.api, options, kb_ids)
    )
    arguments = options.arguments() | ({"kb_ids": list(kb_ids)} if kb_ids else {})
    shown = ShownSearch(settings.base_url, visit.session.organization_id, None, options.q, arguments)
    return render_page(
        request,
        "search_several.html",
        part="_results_of_several.html",
        status_code=200 if problem is None else problem.status,
        known=known.knowledge_bases,
        # Too many to choose from.
        documents=[],
        names={kb.kb_id: kb.name for kb in known.knowledge_bases},
        kb_ids=kb_ids,
        found=found,
        problem=problem,
        samples=list_samples(shown),
        **_form_values(options),
        **_result_values(found),
    )


async def _find_absent(visit: Visit, typed: str, *, kb_id: str) -> tuple[str, ShownProblem | None]:
    """Return the id of the document that should be among the results, or why its name names none."""
    try:
        return await find_document_id(visit, typed, field="document", kb_id=kb_id), None
    except UnusableForm as error:
        return "", describe_refusal(error)


async def _search(
    api: AsyncClient, kb_id: str, *, options: SearchOptions, compared: ComparedOptions, absent: str
) -> SearchTestOutcome:
    if not options.q.strip():
        return SearchTestOutcome()
    search = api.knowledge_bases.search
    try:
        other = explained = unexplained = None
        if compared.compare:
            second = compared.apply_to(options)
            found, other = await run_two_or_cancel(
                search(kb_id, options.q, **options.arguments()),
                search(compared.kb_id or kb_id, options.q, **second.arguments()),
            )
        elif absent:
            found, told = await run_two_or_cancel(
                search(kb_id, options.q, **options.arguments()), _explain(api, kb_id, options=options, absent=absent)
            )
            explained, unexplained = told
        else:
            found = await search(kb_id, options.q, **options.arguments())
    except ApiError as error:
        return SearchTestOutcome(problem=describe_refusal(error))
    return SearchTestOutcome(found, other, explained, unexplained)


async def _explain(
    api: AsyncClient, kb_id: str, *, options: SearchOptions, absent: str
) -> tuple[SearchExplanationView | None, ShownProblem | None]:
    """Return why a document is not among the results, or why that can't be said: no reason to show no results."""
    explain = api.knowledge_bases.explain_search
    try:
        return await explain(kb_id, options.q, document_id=absent, **options.arguments()), None
    except ApiError as error:
        return None, describe_refusal(error)


async def _search_several(
    api: AsyncClient, options: SearchOptions, kb_ids: Sequence[str]
) -> tuple[SearchSeveralResponse | None, ShownProblem | None]:
    if not options.q.strip():
        return None, None
    try:
        arguments = options.arguments()
        return await api.knowledge_bases.search_several(options.q, kb_ids=list(kb_ids) or UNSET, **arguments), None
    except ApiError as error:
        return None, describe_refusal(error)


async def _read_choices(
    api: AsyncClient, kb_id: str, *, with_choices: bool
) -> tuple[KnowledgeBaseView, dict[str, Any]]:
    """Return the knowledge base, with the documents and other knowledge bases that the form names."""
    if not with_choices:
        return await api.knowledge_bases.get(kb_id), {}
    kb, (documents, others) = await run_two_or_cancel(
        api.knowledge_bases.get(kb_id),
        run_two_or_cancel(
            api.knowledge_bases.list_documents(kb_id, status="all", limit=_MOST_CHOICES),
            api.knowledge_bases.list(limit=_MOST_CHOICES),
        ),
    )
    names = [("", "the same"), *((each.kb_id, each.name) for each in others.knowledge_bases if each.kb_id != kb_id)]
    return kb, {"documents": documents.documents, "other_kbs": names}


async def _read_other(api: AsyncClient, compared: ComparedOptions) -> KnowledgeBaseView | None:
    """Return the knowledge base of the second search, if it is another one that still exists."""
    if not (compared.compare and compared.kb_id):
        return None
    try:
        return await api.knowledge_bases.get(compared.kb_id)
    except ApiError as error:
        # Its search says why.
        if error.status != _GONE:
            raise
        return None


def find_equal_hits(left: Results | None, right: Results | None) -> dict[tuple[str, int], int]:
    """Return for each side and number of a hit, from 1, the number of the hit on the other side with the same text."""
    if left is None or right is None:
        return {}
    equal: dict[tuple[str, int], int] = {}
    for number, hit in enumerate(left.results, 1):
        for other_number, other in enumerate(right.results, 1):
            if _overlap(hit, other) and ("b", other_number) not in equal:
                equal[("a", number)], equal[("b", other_number)] = other_number, number
                break
    return equal


def _overlap(hit: SearchResult, other: SearchResult) -> bool:
    """Say whether two hits show the same part of a document. Knowledge bases may cut it at other places."""
    return hit.document_id == other.document_id and hit.start < other.end and other.start < hit.end


def _form_values(options: SearchOptions) -> dict[str, Any]:
    return {
        "options": options,
        "modes": MODES,
        "mode_words": dict(MODES),
        "priorities": PRIORITIES,
        "operators": OPERATORS,
        # One more than are used, to type into.
        "rows": [*options.rows, FilterRow("", "$eq", "")],
        "filter_json": options.metadata_filter(),
    }


def _result_values(*found: Results | None) -> dict[str, Any]:
    return {"best": _best_scores([each for each in found if each is not None])}


def _best_scores(found: Sequence[Results]) -> dict[str, float]:
    """Return the best score of each kind, so that all bars of a kind have one scale."""
    scores = [result.scores for each in found for result in each.results]
    return {
        "vector": 1.0,
        "text": max((each.text for each in scores if each.text is not None), default=0.0),
    }
