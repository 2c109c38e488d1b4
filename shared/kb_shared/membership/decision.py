"""Decides which KBs a document belongs to, and what removes its drift there. Pure: values in, a decision out."""

from collections.abc import Collection, Iterable
from enum import StrEnum

from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import Document, chunk_metadata_digest
from kb_shared.mongo.knowledge_bases import KnowledgeBase


class Action(StrEnum):
    """Names what removes the drift between a document and what is indexed of it in a KB."""

    NOTHING = "nothing"
    INDEX = "index"
    """Action for drift of the text, or of the KB's settings for chunking and embedding."""
    CHECK = "check"
    """Action for what was indexed before the KB refused documents with credentials."""
    REFRESH = "refresh"
    """Action for drift only of the fields of the document that chunks carry."""
    ACKNOWLEDGE = "acknowledge"
    """Action for a new revision with the same content: only its number has to be written."""
    REMOVE = "remove"
    """Action for chunks of a document that has no place in the KB any more."""
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
    """Compare a document with what is indexed of it in `kb`, and return what removes the drift.

    The first case that applies decides:

    | case | applies when | action |
    |---|---|---|
    | 1 | the document has no place in the KB, and chunks of it are there | REMOVE |
    | 2 | it has none and no chunks, but has a tag of the KB, and its text has not arrived yet | WAIT |
    | 3 | it has none, and cases 1 and 2 don't apply | NOTHING |
    | 4 | nothing is indexed, or another text, or with another configuration of the KB | INDEX |
    | 5 | the KB refuses credentials, and what is indexed was not checked for them | CHECK |
    | 6 | name, tags, date, metadata or warnings of the document are not those of its chunks | REFRESH |
    | 7 | only the number of the revision is another one | ACKNOWLEDGE |
    | 8 | all is equal | NOTHING |

    A document has no place in the KB if it was never received, was deleted, has no text, or shares no tag with the KB.
    Cases 4 to 8 are for documents that have one. The order matters: indexing and a check also bring name, tags and
    metadata up to date, and these and a refresh also take down the revision.

    Example: a KB has the tag `a`, a document the tags `a` and `b`, and revision 1 of its text is indexed. The tag `b`
    goes: case 6. Revision 2 has the same text: case 7. Revision 3 has another text: case 4. The tag `a` goes: case 1,
    and after the removal case 3.

    Args:
        document: None if it was never received.
        kb: with its current tags and configuration.
        indexed: None if no chunk of the document is in the KB.
    """
    # Cases 1 to 3: the document has no place in the KB.
    if document is None or document.text is None or not belongs(document, kb):
        if indexed is not None:
            return Action.REMOVE
        return Action.WAIT if awaits_text(document, kb) else Action.NOTHING
    # Cases 4 to 8: it has one.
    if indexed is None or indexed.content_digest != document.text.text_id or indexed.config_hash != kb.config_hash:
        return Action.INDEX
    if kb.refuse_sensitive and not indexed.content_checked:
        return Action.CHECK
    if indexed.chunk_metadata_digest != chunk_metadata_digest(document):
        return Action.REFRESH
    return Action.NOTHING if indexed.text_revision == document.text.revision else Action.ACKNOWLEDGE
