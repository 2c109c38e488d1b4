"""Requests to the indexer, on `kb-index-requests` and the bulk lane `kb-index-backfill`."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from kb_contracts.cloudevents import Payload
from kb_contracts.identifiers import Identifier

KbId = Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]


class Reason(StrEnum):
    """Why a document is looked at; decides nothing but the label of its metrics and what people see."""

    OCR = "ocr"
    TAG = "tag"
    METADATA = "metadata"
    DELETED = "deleted"
    BACKFILL = "backfill"
    RETRY = "retry"
    RECONCILE = "reconcile"


class SyncDocument(Payload):
    """Bring a document in a KB to its current required state. Late or duplicate commands are harmless."""

    TYPE: ClassVar[str] = "sync_document.v1"

    organization_id: Identifier
    kb_id: KbId
    document_id: Identifier
    reason: Reason
    force: bool = False
    """True to index the document even if nothing seems to have changed."""


INDEX_REQUESTS: Final[dict[str, type[SyncDocument]]] = {SyncDocument.TYPE: SyncDocument}


def key_of(command: SyncDocument) -> bytes:
    return f"{command.kb_id}/{command.document_id}".encode()
