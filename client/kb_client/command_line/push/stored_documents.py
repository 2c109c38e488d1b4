"""Reads what the server has of pushed folders: with one call for a hundred documents."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from kb_client.call import MAX_PAGE
from kb_client.errors import HttpNotFound, KbClientError
from kb_client.files.document_ids import id_prefix
from kb_client.files.document_parts import count_further_parts, parts_prefix
from kb_client.files.push_plan import PushedDocument

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient
    from kb_contracts.api.document_lists import DocumentSummary
    from kb_contracts.api.documents import DocumentView

_READ_AT_ONCE: Final = 8


async def read_folders(
    client: "AsyncClient", sources: Collection[str], *, wanted: Collection[str], all_of_them: bool
) -> dict[str, PushedDocument]:
    """Return the documents of folders that are alive, by their ids.

    Args:
        client: client of the organization.
        sources: names of the folders.
        wanted: ids of documents that are needed.
        all_of_them: whether the other documents of the folders are needed as well.
    """
    found: dict[str, PushedDocument] = {}
    for source in sources:
        prefix = id_prefix(source)
        of_source = [each for each in wanted if each.startswith(prefix)]
        page = await client.documents.list(id_prefix=prefix, status="available", limit=MAX_PAGE)
        listed = list(page.documents)
        pages_left = -(-(page.total_count - len(listed)) // MAX_PAGE)
        if not all_of_them and pages_left > len(of_source):
            # A few files of a large folder: to read each is less.
            found |= await read_documents(client, of_source)
            continue
        while page.next_cursor is not None:
            page = await client.documents.list(
                id_prefix=prefix, status="available", cursor=page.next_cursor, limit=MAX_PAGE
            )
            listed += page.documents
        found |= {each.document_id: _as_pushed(each) for each in listed}
    return found


async def read_documents(client: "AsyncClient", document_ids: Collection[str]) -> dict[str, PushedDocument]:
    """Return some documents that are alive, with their further parts, by their ids."""
    found = [_as_pushed(each) for each in await read_views(client, document_ids) if each.alive]
    for each in [each for each in found if count_further_parts(each.source_digest)]:
        found += map(_as_pushed, await _list_available(client, parts_prefix(each.document_id)))
    return {each.document_id: each for each in found}


async def _list_available(client: "AsyncClient", prefix: str) -> "list[DocumentSummary]":
    """Return the documents that are alive and whose ids begin so."""
    listed: list[DocumentSummary] = []
    cursor = None
    while True:
        page = await client.documents.list(id_prefix=prefix, status="available", cursor=cursor, limit=MAX_PAGE)
        listed += page.documents
        if (cursor := page.next_cursor) is None:
            return listed


async def read_views(client: "AsyncClient", document_ids: Collection[str]) -> list["DocumentView"]:
    """Return some documents with all that is known of them, without those that the server does not have."""
    found: list[DocumentView] = []
    left = iter(document_ids)

    async def read() -> None:
        for document_id in left:
            try:
                found.append(await client.documents.get(document_id))
            except HttpNotFound:
                continue

    async with first_error_raised(), asyncio.TaskGroup() as readers:
        for _ in range(_READ_AT_ONCE):
            readers.create_task(read())
    return found


@asynccontextmanager
async def first_error_raised() -> AsyncIterator[None]:
    """Turn the group of errors of a task group into its first one.

    Raises:
        KbClientError: that one.
    """
    failure: BaseException | None = None
    try:
        yield
    except* KbClientError as group:
        failure = next(_leaves(group))
    if failure is not None:
        raise failure


def _leaves(group: BaseExceptionGroup[KbClientError]) -> Iterator[KbClientError]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def _as_pushed(found: "DocumentSummary | DocumentView") -> PushedDocument:
    return PushedDocument(
        found.document_id,
        found.source_digest,
        frozenset(found.tag_ids),
        found.document_name,
        has_failed=any(each.status == "failed" for each in found.knowledge_bases),
        is_being_indexed=any(each.status in ("pending", "running") for each in found.knowledge_bases),
    )
