"""Reads a part of the stored text of a document."""

from typing import Final

from kb_contracts.api.document_texts import DocumentText
from kb_contracts.documents import Page
from kb_shared.errors import NotFound, RequestError, TransientError
from kb_shared.mongo import document_texts, documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey

_ATTEMPTS: Final = 3
"""Number of texts that are tried. One can be swept after its document was read, if a newer one has replaced it."""
_RETRY_AFTER_S: Final = 1.0


async def read_text(database: Database, key: DocumentKey, *, start: int, end: int) -> DocumentText:
    """Return the characters from `start` to before `end`, as far as the text has them.

    Raises:
        NotFound: The organization has no such document, or it has no text.
        RequestError: 503 `text-being-replaced`.
        TransientError: The text is damaged.
    """
    swept: set[str] = set()
    while len(swept) < _ATTEMPTS:
        document = await documents.find(database, key)
        if document is None or document.text is None:
            raise NotFound("document with a text")
        part = await document_texts.find_part(
            database, key.organization_id, document.text.text_id, start=start, end=end
        )
        if part is not None:
            begin = min(start, part.length)
            last = begin + len(part.text)
            return DocumentText(
                document_id=key.document_id,
                text=part.text,
                start=begin,
                end=last,
                length=part.length,
                revision=document.text.revision,
                embedding_text=part.embedding_text,
                pages=[Page(page=page, start=s, end=e) for page, s, e in part.pages if s < last and e > begin],
            )
        if document.text.text_id in swept:
            raise TransientError("the text of the document can't be read")
        swept.add(document.text.text_id)
    raise RequestError(
        503,
        "text-being-replaced",
        f"The text of the document was replaced each time it was being read. Try again in {_RETRY_AFTER_S:g} s.",
        retry_after_s=_RETRY_AFTER_S,
    )
