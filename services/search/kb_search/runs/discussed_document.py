"""The document that a run is about: its text as it is now, or the beginning of it, as data that nobody has to obey."""

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final

from kb_search.retrieval.context_budget import cut_beginning
from kb_search.runs.passages import PromptDelimiter, cleaned
from kb_shared.chat.completion import Message
from kb_shared.errors import NotFound, RequestError, TransientError
from kb_shared.mongo import document_texts, documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.documents import TextFacet
from kb_shared.mongo.keys import DocumentKey
from kb_shared.text.tokens import count_tokens, token_starts

_MOST_CHARACTERS_PER_TOKEN: Final = 10
"""Characters per token. Prose has four or five; of a text with more, such as spaces, less is shown than would fit."""


@dataclass(frozen=True, slots=True)
class DiscussedDocument:
    document_id: str
    name: str
    text: str
    truncated: bool

    def message(self, delimiter: PromptDelimiter) -> Message:
        """Build the message that precedes the question."""
        data: dict[str, Any] = {"document": cleaned(self.name), "text": cleaned(self.text)}
        if self.truncated:
            data["truncated"] = True
        return {"role": "user", "content": f"The question is about this document:\n{delimiter.around(data)}"}


def reminder(name: str, delimiter: PromptDelimiter) -> Message:
    """Build the message before a question of an earlier run that was about a document."""
    data = delimiter.around({"document": cleaned(name)})
    return {"role": "user", "content": f"The next question was about this document, whose text is left out:\n{data}"}


async def read_discussed(
    database: Database, organization_id: str, document_id: str, *, max_tokens: int
) -> DiscussedDocument:
    """Read a document of the organization, with as much of its text as `max_tokens` have room for.

    Raises:
        NotFound: nothing is known of it, or it is deleted.
        RequestError: 409 `waiting-for-text`.
        TransientError: the text has just been replaced.
    """
    facet = await _current_text(database, organization_id, document_id)
    text = await document_texts.find_beginning(
        database, organization_id, facet.text_id, characters=characters_to_read(max_tokens)
    )
    if text is None:
        raise TransientError("the text of the document has just been replaced")
    # In a thread: counting the tokens of a long text takes longer than the loop may stand still.
    return await asyncio.to_thread(discussed, document_id, facet.name, text, max_tokens=max_tokens)


async def _current_text(database: Database, organization_id: str, document_id: str) -> TextFacet:
    document = await documents.find(database, DocumentKey(organization_id, document_id))
    if document is None:
        raise NotFound("document")
    if document.text is not None:
        return document.text
    if document.tags is None and document.metadata is None:
        # Of a document that is deleted nothing else is left.
        raise NotFound("document")
    raise RequestError(
        409,
        "waiting-for-text",
        "The text of this document has not come yet. Send it (PUT /documents/{document_id}, or "
        "document.ocr_completed), or ask again once it is there.",
    )


def characters_to_read(max_tokens: int) -> int:
    """How much of a text is enough to know the beginning that `max_tokens` have room for."""
    return max_tokens * _MOST_CHARACTERS_PER_TOKEN


def discussed(document_id: str, name: str, text: str, *, max_tokens: int) -> DiscussedDocument:
    """Keep what there is room for, up to a sentence or else a word.

    Args:
        document_id: of the document.
        name: of the document.
        text: all of it if that is less than `characters_to_read`, else so much of it.
        max_tokens: of the text.
    """
    is_all = len(text) < characters_to_read(max_tokens)
    if is_all and count_tokens(text) <= max_tokens:
        return DiscussedDocument(document_id, name, text, truncated=False)
    cut = cut_beginning(text, max_tokens) or _first_tokens(text, max_tokens)
    return DiscussedDocument(document_id, name, cut, truncated=True)


def _first_tokens(text: str, max_tokens: int) -> str:
    """Cut a text that has no sentence or word to cut after."""
    starts = token_starts(text)
    return text[: starts.offsets[bisect_right(starts.tokens_before, max_tokens) - 1]]
