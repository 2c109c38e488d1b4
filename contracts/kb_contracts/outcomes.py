"""Outcomes of documents and KBs (`kb-events`), and charges (`kb-usage`)."""

from typing import ClassVar, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from kb_contracts.cloudevents import Payload
from kb_contracts.commands import KbId
from kb_contracts.identifiers import Identifier
from kb_contracts.metadata import MetadataWarnings


class _InKnowledgeBase(Payload):
    organization_id: Identifier
    kb_id: KbId


class DocumentIndexed(_InKnowledgeBase):
    TYPE: ClassVar[str] = "document.indexed.v1"

    document_id: Identifier
    revision: int
    """Revision of the text that is searchable now."""
    chunk_count: int
    warnings: MetadataWarnings | None = None
    """Parts of the metadata that were left out because they can't be stored; absent if there is none."""


class DocumentRemoved(_InKnowledgeBase):
    TYPE: ClassVar[str] = "document.removed.v1"

    document_id: Identifier


class DocumentIndexFailed(_InKnowledgeBase):
    TYPE: ClassVar[str] = "document.index_failed.v1"

    document_id: Identifier
    error_type: str
    message: str
    revision: int | None = None
    """Revision of the text that could not be indexed; absent if there is none, and in messages of older versions."""


class DocumentRejected(Payload):
    """Event that was rejected: a dead letter, an unsendable message if Kafka refused it, or a text refused by a KB."""

    TYPE: ClassVar[str] = "document.rejected.v1"

    organization_id: Identifier | None = None
    document_id: Identifier | None = None
    reason: str
    detail: str
    event_id: str | None = None
    """`id` of the rejected event, as far as it could be read."""
    event_type: str | None = None
    """Type of the event, as far as it could be read."""
    topic: str | None = None
    """Topic of the record, without the prefix of the deployment."""
    partition: int | None = None
    """Partition of the record; absent, like `offset`, if it was not written."""
    offset: int | None = None
    dead_letter_id: str | None = None
    """Id in `GET /dead-letters`, if the record was written."""
    message_id: str | None = None
    """Id in `GET /unsendable-messages`, if the record was not written."""
    kb_id: str | None = None
    """KB that refuses the text of the document (`refuse_sensitive`); absent if the event could not be used at all."""
    revision: int | None = None
    """Revision of the text that a KB refuses."""


Facet: TypeAlias = Literal["text", "tags", "metadata", "deletion"]
"""Part of a document that has a revision of its own."""


class OutdatedFacet(BaseModel):
    """Part of a document of which an event does not decide, because something else stays."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    facet: Facet
    by: Literal["deletion", "newer_revision", "other_content"]
    """Kind of what stays: a `deletion` whose revision is not smaller; a `newer_revision`; or `other_content` with the
    same revision, of which the greatest digest stays, whichever came first."""
    revision: int
    """Revision of what stays."""


class DocumentOutdated(Payload):
    """Event that happened after what stays in its place: a deletion, or other content with the same revision.

    An event with a smaller revision than the content that stays is not announced: that is how events in any order work.
    """

    TYPE: ClassVar[str] = "document.outdated.v1"

    organization_id: Identifier
    document_id: Identifier
    revision: int
    """Revision of the event."""
    event_id: str
    """`id` of the event."""
    event_type: str
    outdated: list[OutdatedFacet]
    """Parts of the document of which the event does not decide."""


class KnowledgeBaseCreated(_InKnowledgeBase):
    TYPE: ClassVar[str] = "knowledge_base.created.v1"


class KnowledgeBaseChanged(_InKnowledgeBase):
    TYPE: ClassVar[str] = "knowledge_base.changed.v1"


class KnowledgeBaseDeleted(_InKnowledgeBase):
    TYPE: ClassVar[str] = "knowledge_base.deleted.v1"


class SpuCharged(Payload):
    TYPE: ClassVar[str] = "spu.charged.v1"

    ledger_id: str
    """Id of the charge, to count each charge once."""
    organization_id: Identifier
    kb_id: KbId | None = None
    operation: Literal["index", "search"]
    model: str
    count: int


class BudgetSoftExceeded(Payload):
    """An organization has reached a soft limit of its budget; sent once per month for each of the two units."""

    TYPE: ClassVar[str] = "budget.soft_exceeded.v1"

    organization_id: Identifier
    month: str
    """Month in UTC, such as `2026-01`."""
    unit: Literal["spu", "usd"]
    soft: float
    """The limit, in this unit."""
    used: float
    """Spending of this month at that time."""


AboutDocument = DocumentIndexed | DocumentRemoved | DocumentIndexFailed
AboutKnowledgeBase = KnowledgeBaseCreated | KnowledgeBaseChanged | KnowledgeBaseDeleted
Outcome = AboutDocument | AboutKnowledgeBase | BudgetSoftExceeded | SpuCharged

KB_EVENTS: Final[dict[str, type[Payload]]] = {
    model.TYPE: model
    for model in (
        DocumentIndexed,
        DocumentRemoved,
        DocumentIndexFailed,
        DocumentRejected,
        DocumentOutdated,
        KnowledgeBaseCreated,
        KnowledgeBaseChanged,
        KnowledgeBaseDeleted,
        BudgetSoftExceeded,
    )
}
USAGE: Final[dict[str, type[SpuCharged]]] = {SpuCharged.TYPE: SpuCharged}


def key_of(outcome: Outcome) -> str:
    """Return the Kafka key: what happens in a KB stays in one partition."""
    if isinstance(outcome, SpuCharged | BudgetSoftExceeded):
        return outcome.organization_id
    return f"{outcome.organization_id}/{outcome.kb_id}"


def ordering_of(outcome: Outcome) -> str:
    """Return the ordering key of an outcome."""
    match outcome:
        case DocumentIndexed() | DocumentRemoved() | DocumentIndexFailed():
            return f"{outcome.kb_id}/{outcome.document_id}"
        case SpuCharged():
            return outcome.ledger_id
        case BudgetSoftExceeded():
            return f"{outcome.organization_id}/budget"
    return outcome.kb_id
