"""Renders the results of tools: as text for a model and as structured data for a program. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from kb_contracts.api.search import MAX_COPIES
from kb_contracts.reserved_ids import find_entry_id
from kb_search.mcp.document_chunks import DocumentChunks
from kb_search.retrieval.coalescing import Piece, merge_pieces
from kb_search.retrieval.results import Result
from kb_search.retrieval.search_knowledge_base import SearchAnswer
from kb_search.runs.passages import remove_invisible_characters
from kb_shared.http.problems import as_request_error
from kb_shared.mongo.knowledge_bases import KnowledgeBase

_HEADER_LIKE_LINE: Final = re.compile(r"^([^\S\n]*)\[(document|entry)", re.IGNORECASE | re.MULTILINE)
ENTRY_HEADER: Final = re.compile(
    r"^\[entry (?P<entry_id>\S+) · chunk (?P<chunk_id>\S+) · (?P<strength>strong|fair|weak)\](?: (?P<title>.+))?$"
)
"""First line of each text that `knowledge_search` returns. Clients parse it, so it doesn't change."""

_NOTHING: Final = "Nothing was found: the documents may not say it. Other words, or fewer, may find more."
_BY_WORDS_ONLY: Final = (
    "(By words only: the embedding provider is not available now, so matches by meaning are missing.)"
)

Blocks: TypeAlias = Sequence[str]
"""Texts for a model, each a separate content block."""


def render_search_results(answer: SearchAnswer) -> tuple[Blocks, dict[str, Any]]:
    """Render search results: one block for each passage, with a header line, and the same data in fields.

    Consecutive chunks are merged into one passage, in which overlapping text appears once. The fields contain each
    chunk separately. A passage can't imitate the header line of another one.
    """
    results = [_fields(result) for result in answer.fitted.results]
    failures = [as_request_error(error).detail for error in answer.failures.values()]
    omitted_count = answer.fitted.omitted_count
    blocks = [_block(passage) for passage in _passages(answer.fitted.results)] or [_NOTHING]
    if omitted_count:
        blocks.append(f"({omitted_count} more passages did not fit.)")
    blocks += [f"(A knowledge base could not be searched: {detail})" for detail in dict.fromkeys(failures)]
    if answer.degraded:
        blocks.append(_BY_WORDS_ONLY)
    fields = {"results": results, "omitted_count": omitted_count, "failures": failures}
    return blocks, fields | {"degraded": ["vector"] if answer.degraded else []}


def render_entries(answer: SearchAnswer) -> tuple[Blocks, dict[str, Any]]:
    """Render hits of a search of entries: one block for each, with a header line, and the same data in fields."""
    hits = [hit for result in answer.fitted.results if (hit := _entry_fields(result)) is not None]
    blocks = [_entry_block(hit) for hit in hits] or [_NOTHING]
    if answer.fitted.omitted_count:
        blocks.append(f"({answer.fitted.omitted_count} more hits did not fit.)")
    if answer.degraded:
        blocks.append(_BY_WORDS_ONLY)
    return blocks, {"hits": hits, "omitted_count": answer.fitted.omitted_count} | {
        "degraded": ["vector"] if answer.degraded else []
    }


def _entry_fields(result: Result) -> dict[str, Any] | None:
    entry_id = find_entry_id(result.chunk.document_id)
    if entry_id is None or result.hit is None:
        return None
    return {
        "entry_id": entry_id,
        "chunk_id": result.chunk.chunk_id,
        "strength": result.strength,
        "score": round(result.score, 4),
        "entry_title": _one_line(result.chunk.document_name),
        "content": remove_invisible_characters(result.text),
    }


def _entry_block(hit: Mapping[str, Any]) -> str:
    header = f"[entry {hit['entry_id']} · chunk {hit['chunk_id']} · {hit['strength']}] {hit['entry_title']}"
    return f"{header.rstrip()}\n{_without_headers(hit['content'])}"


def render_document_chunks(read: DocumentChunks) -> tuple[Blocks, dict[str, Any]]:
    """Render chunks of a document like passages of a search, and say where to continue."""
    results = [
        Result(read.kb, chunk, None, chunk.text, chunk.token_count, truncated=False, similarity=0)
        for chunk in read.chunks
    ]
    blocks = [_block(passage) for passage in _passages(results)]
    position = f"(Chunks of this document: {read.total_count}."
    blocks.append(f"{position})" if read.next_skip is None else f"{position} Continue with skip {read.next_skip}.)")
    fields = [_fields(result) for result in results]
    return blocks, {"chunks": fields, "total_count": read.total_count, "next_skip": read.next_skip}


def render_knowledge_bases(kbs: Sequence[KnowledgeBase]) -> tuple[Blocks, dict[str, Any]]:
    """Render KBs: one block with a line for each, and the same data in fields."""
    fields = [
        {
            "kb_id": kb.kb_id,
            "name": _one_line(kb.name),
            "description": _one_line(kb.description),
            "status": str(kb.status),
        }
        for kb in kbs
    ]
    lines = [
        f"[knowledge base {each['kb_id']} · {each['status']}] {each['name']}: {each['description']}" for each in fields
    ]
    return ["\n".join(lines) or "There are no knowledge bases."], {"knowledge_bases": fields}


def _passages(results: Sequence[Result]) -> list[list[Result]]:
    """Group results that are consecutive here and in their document."""
    found: list[list[Result]] = []
    for result in results:
        if found and _follows(result, found[-1][-1]):
            found[-1].append(result)
        else:
            found.append([result])
    return found


def _follows(result: Result, before: Result) -> bool:
    places = [(one.kb.kb_id, one.chunk.document_id, one.chunk.chunk_index) for one in (result, before)]
    return places[0] == (*places[1][:2], places[1][2] + 1) and not before.truncated


def _block(passage: Sequence[Result]) -> str:
    content = merge_pieces([Piece(one.text, one.chunk.start, one.chunk.end) for one in passage])
    return f"{_header(passage)}\n{_without_headers(content)}{_copies(passage)}"


def _copies(passage: Sequence[Result]) -> str:
    """Return a line with the names of other documents that have the passage."""
    hits = [one.hit for one in passage if one.hit is not None]
    names = dict.fromkeys(_one_line(copy.chunk["document_name"]) for hit in hits for copy in hit.copies)
    return f"\n(The same text is in: {', '.join([*names][:MAX_COPIES])})" if names else ""


def _without_headers(content: str) -> str:
    """Return the content for a model; no line of it can be taken for the header of another text."""
    return _HEADER_LIKE_LINE.sub(r"\1\\[\2", remove_invisible_characters(content))


def _header(passage: Sequence[Result]) -> str:
    """Return the line before a passage, with all that a model needs to cite it and to read on."""
    first, last = passage[0].chunk, passage[-1].chunk
    known = [
        f"document {first.document_id}",
        f"kb {passage[0].kb.kb_id}",
        _range("chunk", first.chunk_index, last.chunk_index),
        _pages(passage),
        passage[0].strength if any(one.hit for one in passage) else "",
    ]
    names = dict.fromkeys(_one_line(each) for each in (first.document_name, *first.heading_path))
    path = first.metadata.get("path")
    file = f" ({_one_line(path)})" if isinstance(path, str) and path != first.document_name else ""
    return f"[{' · '.join(filter(None, known))}] {' > '.join(names)}{file}"


def _pages(passage: Sequence[Result]) -> str:
    first, last = passage[0].chunk.page_start, passage[-1].chunk.page_end
    return "" if first is None else _range("page", first, first if last is None else last)


def _range(name: str, first: int, last: int) -> str:
    return f"{name} {first}" if first == last else f"{name}s {first}-{last}"


def _fields(result: Result) -> dict[str, Any]:
    chunk = result.chunk
    return {
        "kb_id": result.kb.kb_id,
        "document_id": chunk.document_id,
        "chunk_index": chunk.chunk_index,
        # A neighbour of a match has none.
        "score": None if result.hit is None else round(result.score, 4),
        "strength": None if result.hit is None else result.strength,
        "also_in": [
            {"kb_id": copy.kb_id, "document_id": copy.chunk["document_id"], "chunk_id": copy.chunk["_id"]}
            for copy in (result.hit.copies[:MAX_COPIES] if result.hit else ())
        ],
        "title": _one_line(chunk.document_name),
        "chunk_id": chunk.chunk_id,
        "citation": chunk.chunk_id,
        "start": chunk.start,
        "end": chunk.end,
        "heading_path": [_one_line(heading) for heading in chunk.heading_path],
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "truncated": result.truncated,
        "content": remove_invisible_characters(result.text),
    }


def _one_line(text: str) -> str:
    return " ".join(remove_invisible_characters(text).split())
