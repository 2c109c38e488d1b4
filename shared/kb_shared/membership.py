"""Decides which KBs a document belongs to, and what removes its drift there. Pure: values in, a decision out."""

import hashlib
from collections.abc import Collection, Iterable
from enum import StrEnum

from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import Document
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.text.metadata_pairs import metadata_pairs


class Action(StrEnum):
    """Names what removes the drift between a document and what is indexed of it in a KB."""

    NOTHING = "nothing"
    INDEX = "index"
    """Action for drift of the text, or of the KB's settings for chunking and embedding."""
    REFRESH = "refresh"
    """Action for drift only of the fields of the document that chunks carry."""
    ACKNOWLEDGE = "acknowledge"
    """Action for a new revision with the same content: only its number has to be written."""
    REMOVE = "remove"
    WAIT = "wait"
    """Action for a document with a tag of the KB, but without a text yet."""


def belongs(document: Document, kb: KnowledgeBase) -> bool:
    return document.alive and not set(document.tag_ids).isdisjoint(kb.tag_ids)


def awaits_text(document: Document | None, kb: KnowledgeBase) -> bool:
    return document is not None and not document.alive and not set(document.tag_ids).isdisjoint(kb.tag_ids)


def membership(document: Document, kbs: Iterable[KnowledgeBase], known: Collection[str]) -> list[KnowledgeBase]:
    """Return the KBs that an event of `document` concerns: they share a tag with it, or are in `known`.

    Args:
        known: ids of the KBs in which the document is indexed or has an open job.
    """
    return [kb for kb in kbs if kb.kb_id in known or not set(document.tag_ids).isdisjoint(kb.tag_ids)]


def decide(document: Document | None, kb: KnowledgeBase, indexed: IndexedDocument | None) -> Action:
    """Compare a document with what is indexed of it in `kb`, and return what removes the drift."""
    if document is None or document.text is None or not belongs(document, kb):
        if indexed is not None:
            return Action.REMOVE
        return Action.WAIT if awaits_text(document, kb) else Action.NOTHING
    if indexed is None or indexed.content_digest != document.text.text_id or indexed.config_hash != kb.config_hash:
        return Action.INDEX
    if indexed.snapshot_digest != snapshot_digest(document):
        return Action.REFRESH
    return Action.NOTHING if indexed.text_revision == document.text.revision else Action.ACKNOWLEDGE


def snapshot_digest(document: Document) -> str:
    """Compute the digest of all document fields that each chunk carries."""
    if document.text is None:
        raise ValueError("a document without text has no snapshot")
    parts = (
        document.text.name,
        document.text.upload_date.isoformat(),
        sorted(document.tag_ids),
        metadata_pairs(document.metadata_values),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
