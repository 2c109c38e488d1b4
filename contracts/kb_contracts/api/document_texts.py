"""The stored text of a document."""

from typing import Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import example
from kb_contracts.documents import Page

MAX_CHARACTERS: Final = 200_000
"""Greatest number of characters of one answer."""


class DocumentText(BaseModel):
    """A part of the text of a document. Positions of chunks and citations refer to this text."""

    model_config = example(
        {
            "document_id": "handbook",
            "text": "Employees have 30 days of leave a year.",
            "start": 0,
            "end": 39,
            "length": 39,
            "revision": 1,
            "pages": [{"page": 1, "start": 0, "end": 39}],
            "embedding_text": None,
        }
    )

    document_id: str
    text: str = Field(description="Characters `start` to `end` of the text.")
    start: int = Field(description="Position of the first character of `text`.")
    end: int = Field(description="Position after the last character of `text`; read on from here.")
    length: int = Field(description="Number of characters of the whole text, in Unicode code points.")
    revision: int = Field(
        description="Revision of the text. If it differs between two parts, read from the beginning again."
    )
    pages: list[Page] = Field(description="Positions in the whole text of the pages that this part touches.")
    embedding_text: str | None = Field(
        default=None, description="Text that is embedded in place of the text; null: the text is."
    )
