"""The list of entries, and the search that agents make."""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_client.errors import ApiError
from kb_console.addresses import KNOWLEDGE, OF_ORGANIZATION
from kb_console.dependencies import Visitor
from kb_console.pages import render_page
from kb_console.paging import ROWS
from kb_console.problems import describe_refusal
from kb_console.status_words import OF_ENTRY
from kb_contracts.api.knowledge_entries import EmbeddingStatus

ENTRY_TYPES: Final = ("note", "rule", "pattern", "reference", "decision")
SOURCE_KINDS: Final = {"url_crawl": "web site", "file_upload": "file", "mcp": "MCP server"}
_FilterText = Annotated[str, Query(max_length=200)]
_Day = Annotated[str, Query(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/knowledge")
async def list_entries(
    request: Request,
    visit: Visitor,
    *,
    q: _FilterText = "",
    source_type: _FilterText = "",
    status: EmbeddingStatus | Literal[""] = "",
    since: _Day = "",
    until: _Day = "",
    tag: _FilterText = "",
    entity_id: _FilterText = "",
    info_type: _FilterText = "",
    knowledge_type: _FilterText = "",
    source_id: _FilterText = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    further = {
        "tag": tag,
        "entity_id": entity_id,
        "info_type": info_type,
        "knowledge_type": knowledge_type,
        "source_id": source_id,
    }
    shown: dict[str, Any] = {
        "q": q,
        "source_type": source_type,
        "status": status,
        "since": since,
        "until": until,
        **further,
    }
    found = await visit.api.knowledge_entries.list(
        q=q or None,
        source_type=source_type or None,
        embedding_status=status or None,
        since=f"{since}T00:00:00Z" if since else None,
        until=f"{until}T23:59:59.999Z" if until else None,
        cursor=cursor or None,
        limit=ROWS,
        **{name: value or None for name, value in further.items()},
    )

    def address_of(**changed: object) -> str:
        return visit.address(KNOWLEDGE, **{**shown, **changed})

    return render_page(
        request,
        "entries.html",
        part="_entries.html",
        found=found,
        **shown,
        further={name: value for name, value in further.items() if value},
        cursor=cursor,
        done=done,
        is_filtered=any(shown.values()),
        source_types=_source_types(found.totals.by_source_type, source_type),
        statuses=[("", "any"), *((name, words.words) for name, words in OF_ENTRY.items())],
        status_of_entry=OF_ENTRY,
        address_first=address_of(),
        address_next=address_of(cursor=found.next_cursor),
        address_of_list=address_of(cursor=cursor),
        changes_by_itself=found.totals.by_status.get("pending", 0) > 0,
    )


def _source_types(found: dict[str, int], chosen: str) -> list[tuple[str, str]]:
    """Return all kinds to choose from: the usual ones, and those that there are."""
    names = dict.fromkeys([*ENTRY_TYPES, *SOURCE_KINDS, *found, *([chosen] if chosen else [])])
    return [("", "any"), *((name, SOURCE_KINDS.get(name, name)) for name in names)]


@router.get("/knowledge/search")
async def search_entries(
    request: Request,
    visit: Visitor,
    *,
    q: Annotated[str, Query(max_length=1_000)] = "",
    types: _FilterText = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> HTMLResponse:
    found: Any = None
    problem = None
    if q.strip():
        try:
            found = await visit.api.knowledge.search(q, types=types or None, limit=limit)
        except ApiError as error:
            problem = describe_refusal(error)
    return render_page(
        request,
        "entry_search.html",
        part="_entry_hits.html",
        status_code=200 if problem is None else problem.status,
        q=q,
        types=types,
        limit=limit,
        found=found,
        problem=problem,
    )
