"""Publishes the events of a batch of documents: new texts, tags and metadata, and deletions."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from kb_api.carry_out_entries import UncheckedEntry, carry_out_entries, parse_entry, usable_id
from kb_api.document_request import to_deletion, to_metadata_changed, to_ocr_completed, to_tags_changed
from kb_api.publish_document_event import DocumentEventPublisher, Published
from kb_contracts.api.batches import RefusedEntry
from kb_contracts.api.document_batches import (
    BatchedDeletion,
    BatchedDocument,
    BatchedMetadata,
    BatchedTags,
    BatchOutcome,
)
from kb_contracts.documents import DocumentEvent
from kb_contracts.reasons.sentences import unknown_choice
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field

BatchedChange: TypeAlias = BatchedDocument | BatchedTags | BatchedMetadata | BatchedDeletion

_MODELS: Final[Mapping[str, type[BatchedChange]]] = {
    "put": BatchedDocument,
    "replace_tags": BatchedTags,
    "replace_metadata": BatchedMetadata,
    "delete": BatchedDeletion,
}


async def accept_documents(
    publisher: DocumentEventPublisher, caller: Caller, sent: Sequence[Any]
) -> list[BatchOutcome]:
    """Publish the event of each document that is valid; return what became of each, in their order."""
    return await carry_out_entries(
        sent,
        outcome_model=BatchOutcome,
        parse=_parse,
        carry_out=partial(_accept, publisher, caller),
        refuse=_refused,
    )


def _parse(sent: UncheckedEntry) -> BatchedChange:
    action = sent.get("action", "put")
    if not isinstance(action, str) or action not in _MODELS:
        raise invalid_field("action", unknown_choice(action, list(_MODELS)))
    return parse_entry(_MODELS[action], sent)


async def _accept(publisher: DocumentEventPublisher, caller: Caller, change: BatchedChange) -> BatchOutcome:
    def accepted(published: Published) -> BatchOutcome:
        return BatchOutcome(
            document_id=change.document_id,
            revision=published.revision,
            changed=published.effect.changes,
            outdated=list(published.effect.outdated),
            problem=None,
            warnings=list(published.warnings),
        )

    event = _create_event(caller, change)
    return accepted(await publisher.publish(event, revision=change.revision, answer=accepted))


def _create_event(caller: Caller, change: BatchedChange) -> DocumentEvent:
    match change:
        case BatchedTags():
            return to_tags_changed(caller, change.document_id, body=change)
        case BatchedMetadata():
            return to_metadata_changed(caller, change.document_id, body=change)
        case BatchedDeletion():
            return to_deletion(caller, change.document_id, revision=change.revision)
        case BatchedDocument():
            return to_ocr_completed(caller, change.document_id, body=change)


def _refused(sent: UncheckedEntry, problem: RefusedEntry) -> BatchOutcome:
    return BatchOutcome(document_id=usable_id(sent, "document_id"), revision=None, changed=False, problem=problem)
