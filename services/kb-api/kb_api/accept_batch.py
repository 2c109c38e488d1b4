"""Accepts documents of a batch one after the other, so that those with the same id keep their order.

After a failure of the database the others are not tried: each would wait for it, and the request would take minutes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from kb_api.document_request import to_ocr_completed
from kb_api.publish_document_event import DocumentEventPublisher
from kb_contracts.api.document_batches import BatchedDocument, BatchOutcome, RefusedDocument
from kb_contracts.identifiers import is_identifier
from kb_shared.errors import KbError, Parked, RequestError, TransientError
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import MAX_FIELDS, as_request_error, field_problem, invalid_fields
from kb_shared.mongo.database import mongo_errors


async def accept_batch(
    publisher: DocumentEventPublisher, caller: Caller, sent: Sequence[Mapping[str, Any]]
) -> list[BatchOutcome]:
    """Publish the event of each document that is valid; return what became of each, in their order."""
    outcomes: list[BatchOutcome] = []
    failure: KbError | None = None
    for each in sent:
        try:
            document = _parse(each)
            if failure is not None:
                raise failure
            outcomes.append(await _accept(publisher, caller, document))
        except RequestError as error:
            outcomes.append(_refused(each, error))
        except (TransientError, Parked) as error:
            failure = error
            outcomes.append(_refused(each, as_request_error(error)))
    return outcomes


def _parse(sent: Mapping[str, Any]) -> BatchedDocument:
    try:
        return BatchedDocument.model_validate(sent)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_FIELDS]
        raise invalid_fields([field_problem(("document", *each["loc"]), each["msg"]) for each in found]) from None


async def _accept(publisher: DocumentEventPublisher, caller: Caller, document: BatchedDocument) -> BatchOutcome:
    event = to_ocr_completed(caller, document.document_id, body=document)
    with mongo_errors():
        published = await publisher.publish(event, revision=document.revision)
    return BatchOutcome(
        document_id=document.document_id, revision=published.revision, changed=published.changes, problem=None
    )


def _refused(sent: Mapping[str, Any], error: RequestError) -> BatchOutcome:
    document_id = sent.get("document_id")
    return BatchOutcome(
        document_id=document_id if isinstance(document_id, str) and is_identifier(document_id) else None,
        revision=None,
        changed=False,
        problem=RefusedDocument(
            status=error.status, type=error.slug, detail=error.detail, fields=error.extra.get("fields")
        ),
    )
