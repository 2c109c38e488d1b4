"""The document that a run is about: its current text, or the beginning of it, as data for the model."""

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from kb_search.retrieval.context_budget import cut_beginning
from kb_search.runs.passages import quote_lines, remove_invisible_characters, to_one_line
from kb_shared.chat.completion import Message
from kb_shared.chat.prompt_delimiter import PromptDelimiter
from kb_shared.errors import NotFound, RequestError, TransientError
from kb_shared.mongo import document_texts, documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.documents import TextFacet
from kb_shared.mongo.keys import DocumentKey
from kb_shared.text.tokens import count_tokens, token_starts

_MOST_CHARACTERS_PER_TOKEN: Final = 10
"""Limit of characters per token. Prose has four or five. Of a text with more, such as spaces, too little is read."""


@dataclass(frozen=True, slots=True)
class DiscussedDocument:
    document_id: str
    name: str
    text: str
    truncated: bool

    def build_message(self, delimiter: PromptDelimiter) -> Message:
        """Build the message that precedes the question."""
        about = f"The question is about {'the beginning of ' if self.truncated else ''}this document:"
        data = delimiter.enclose(f"{to_one_line(self.name)}\n{quote_lines(self.text)}")
        return {"role": "user", "content": f"{about}\n{data}"}


def build_reminder(name: str, delimiter: PromptDelimiter) -> Message:
    """Build the message before a question of an earlier run that was about a document."""
    data = delimiter.wrap({"document": remove_invisible_characters(name)})
    return {"role": "user", "content": f"The next question was about this document, whose text is left out:\n{data}"}


async def read_discussed_document(database: Database, key: DocumentKey, *, max_tokens: int) -> DiscussedDocument:
    """Read a document of the organization, with as much of its text as fits into `max_tokens`.

    Raises:
        NotFound: The document is unknown or deleted.
        RequestError: 409 `waiting-for-text`.
        TransientError: The text has just been replaced.
    """
    facet = await _current_text(database, key)
    stored = await document_texts.find_beginning(
        database, key.organization_id, facet.text_id, characters=max_characters_to_read(max_tokens)
    )
    if stored is None:
        raise TransientError("the text of the document has just been replaced")
    # In a thread: counting the tokens of a long text would block the event loop for too long.
    return await asyncio.to_thread(cut_document, key.document_id, facet.name, stored.text, max_tokens=max_tokens)


async def _current_text(database: Database, key: DocumentKey) -> TextFacet:
    document = await documents.find(database, key)
    if document is None:
        raise NotFound("document")
    if document.text is not None:
        return document.text
    if document.tags is None and document.metadata is None:
        # A deleted document has no facet but its existence.
        raise NotFound("document")
    raise RequestError(
        409,
        "waiting-for-text",
        "The text of this document has not arrived yet. Send it (PUT /documents/{document_id}, or "
        "document.ocr_completed), or ask again when it has arrived.",
    )


def max_characters_to_read(max_tokens: int) -> int:
    """Return how many characters to read to get the beginning that fits into `max_tokens`."""
    return max_tokens * _MOST_CHARACTERS_PER_TOKEN


def cut_document(document_id: str, name: str, text: str, *, max_tokens: int) -> DiscussedDocument:
    """Cut a text to `max_tokens`, after a sentence or otherwise a word.

    Args:
        document_id: Id of the document.
        name: Name of the document.
        text: The first `max_characters_to_read` characters of its text.
        max_tokens: Maximum number of tokens to keep.
    """
    is_all = len(text) < max_characters_to_read(max_tokens)
    if is_all and count_tokens(text) <= max_tokens:
        return DiscussedDocument(document_id, name, text, truncated=False)
    cut = cut_beginning(text, max_tokens) or _first_tokens(text, max_tokens)
    return DiscussedDocument(document_id, name, cut, truncated=True)


def _first_tokens(text: str, max_tokens: int) -> str:
    """Cut a text that has no sentence or word to cut after."""
    starts = token_starts(text)
    return text[: starts.offsets[bisect_right(starts.tokens_before, max_tokens) - 1]]
