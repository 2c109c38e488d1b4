"""What the API says of documents, to compare with the state that they must be in."""

from collections.abc import Mapping
from typing import Any, Final

import httpx
from pydantic import TypeAdapter

from kb_contracts.cloudevents import Moment
from kb_contracts.documents import OcrCompleted
from kb_contracts.metadata import DateValue, Metadata
from tests.chaos.oracle import ExpectedDocument
from tests.e2e.system import SystemUnderTest
from tests.producers.table import EventsOfRun
from tests.waiting import until

_METADATA: Final = TypeAdapter[Mapping[str, Any]](Metadata)
_MOMENT: Final = TypeAdapter[Any](Moment)


async def until_handled(system: SystemUnderTest, events: EventsOfRun) -> None:
    """Wait until the rows of the documents and tags of a run are those of its last events."""
    expected = {document_id: _stored(document) for document_id, document in events.expected_documents().items()}
    deleted = {f"{events.prefix}deleted", f"{events.prefix}deleted-first", f"{events.prefix}revived"}
    found: Any = None

    async def handled() -> bool:
        nonlocal found
        of_run = {"organization_id": events.organization_id, "document_id": {"$regex": f"^{events.prefix}"}}
        rows = await system.database.documents.find(of_run).to_list()
        documents = {
            row["document_id"]: (row["text_revision"], frozenset(row["tag_ids"]), row["metadata"]) for row in rows
        }
        gone = {row["document_id"] for row in rows if row.get("deleted_revision") is not None}
        found = (documents, gone, await find_tags(system, events))
        return bool(found == (expected, deleted, events.expected_tags()))

    await until(handled, what=f"the events of {events.prefix} are handled", progress=lambda: str(found), every_s=0.2)


def _stored(document: ExpectedDocument) -> tuple[int | None, frozenset[str], dict[str, Any]]:
    metadata = {
        name: value.date if isinstance(value, DateValue) else value for name, value in document.metadata.items()
    }
    return document.text.revision if document.text else None, document.tag_ids, metadata


async def find_tags(system: SystemUnderTest, events: EventsOfRun) -> dict[str, tuple[str | None, bool, int]]:
    """Return name, whether it is deleted, and revision of the tags of a run that have events of their own."""
    of_run = {"organization_id": events.organization_id, "tag_id": {"$regex": f"^{events.prefix}"}}
    rows = await system.database.tags.find(of_run | {"revision": {"$ne": None}}).to_list()
    return {row["tag_id"]: (row["name"], row["deleted"], row["revision"]) for row in rows}


async def differences(http: httpx.AsyncClient, document_id: str, expected: ExpectedDocument) -> list[str]:
    """Return what the API says of a document that is not as expected."""
    view = (await http.get(f"/documents/{document_id}")).raise_for_status().json()
    found = _comparable(view)
    if expected.text is not None:
        found |= await _whole_text(http, document_id)
    wanted = _expected_view(expected)
    return [
        f"{name} of {document_id} is {str(found[name])[:200]!r}, not {str(value)[:200]!r}"
        for name, value in wanted.items()
        if found[name] != value
    ]


def _comparable(view: Mapping[str, Any]) -> dict[str, Any]:
    names = ("document_name", "text_revision", "content_type", "source_digest", "alive")
    return {
        **{name: view[name] for name in names},
        "tag_ids": frozenset(view["tag_ids"]),
        "metadata": _typed(_METADATA.validate_python(view["metadata"])),
        "upload_date": view["upload_date"] and _MOMENT.validate_python(view["upload_date"]),
    }


def _expected_view(expected: ExpectedDocument) -> dict[str, Any]:
    text = expected.text
    common = {"alive": text is not None, "tag_ids": expected.tag_ids, "metadata": _typed(expected.metadata)}
    return common if text is None else common | _expected_text(text)


def _expected_text(text: OcrCompleted) -> dict[str, Any]:
    return {
        "document_name": text.document_name,
        "text_revision": text.revision,
        "content_type": text.content_type,
        "source_digest": text.source_digest,
        # MongoDB keeps milliseconds.
        "upload_date": text.upload_date.replace(microsecond=text.upload_date.microsecond // 1000 * 1000),
        "text": text.text,
        "embedding_text": text.embedding_text,
        "pages": [page.model_dump() for page in text.pages],
    }


def _typed(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with their types: in Python `True`, `1` and `1.0` are equal."""
    return {name: (type(value).__name__, value) for name, value in metadata.items()}


async def _whole_text(http: httpx.AsyncClient, document_id: str) -> dict[str, Any]:
    part = {"length": 1, "end": 0}
    text, pages = "", []
    while part["end"] < part["length"]:
        answer = await http.get(f"/documents/{document_id}/text", params={"start": part["end"]})
        part = answer.raise_for_status().json()
        text += part["text"]
        pages += [page for page in part["pages"] if page not in pages]
        if not part["length"]:
            break
    return {"text": text, "pages": pages, "embedding_text": part["embedding_text"]}
