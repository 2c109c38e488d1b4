"""Documents to choose from in forms that take the id of one."""

from typing import Final

from kb_client.errors import ApiError
from kb_console.dependencies import Visit
from kb_contracts.api.document_lists import DocumentSummary

_CHOICES: Final = 100
_FORBIDDEN: Final = 403


async def read_document_choices(visit: Visit) -> list[DocumentSummary]:
    """Return documents with a text; none for a key that may not see all documents of the organization."""
    try:
        return (await visit.api.documents.list(status="available", limit=_CHOICES)).documents
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return []
