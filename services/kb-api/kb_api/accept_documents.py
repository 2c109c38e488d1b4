"""Publishes the events of a batch of documents: new texts and new tags."""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from kb_api.carry_out_entries import UncheckedEntry, carry_out_entries, parse_entry, usable_id
from kb_api.document_request import to_ocr_completed, to_tags_changed
from kb_api.publish_document_event import DocumentEventPublisher
from kb_contracts.api.batches import RefusedEntry
from kb_contracts.api.document_batches import BatchedDocument, BatchedTags, BatchOutcome
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field

BatchedChange: TypeAlias = BatchedDocument | BatchedTags


async def accept_documents(
    publisher: DocumentEventPublisher, caller: Caller, sent: Sequence[UncheckedEntry]
) -> list[BatchOutcome]:
    """Publish the event of each document that is valid; return what became of each, in their order."""
    return await carry_out_entries(sent, parse=_parse, carry_out=partial(_accept, publisher, caller), refuse=_refused)


def _parse(sent: UncheckedEntry) -> BatchedChange:
    match sent.get("action", "put"):
        case "put":
            return parse_entry(BatchedDocument, sent)
        case "replace_tags":
            return parse_entry(BatchedTags, sent)
    raise invalid_field("action", "Input should be 'put' or 'replace_tags'")


async def _accept(publisher: DocumentEventPublisher, caller: Caller, change: BatchedChange) -> BatchOutcome:
    event = (
        to_tags_changed(caller, change.document_id, body=change)
        if isinstance(change, BatchedTags)
        else to_ocr_completed(caller, change.document_id, body=change)
    )
    published = await publisher.publish(event, revision=change.revision)
    return BatchOutcome(
        document_id=change.document_id, revision=published.revision, changed=published.changes, problem=None
    )


def _refused(sent: UncheckedEntry, problem: RefusedEntry) -> BatchOutcome:
    return BatchOutcome(document_id=usable_id(sent, "document_id"), revision=None, changed=False, problem=problem)
