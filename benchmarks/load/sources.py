"""Texts for the load: a corpus of real documents, or texts made by rule."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.corpus.documents import RealDocument, read_documents
from benchmarks.indexing import corpus

_MADE_DOCUMENTS: Final = 5_000
_MADE_WORDS: Final = 330


def documents_for(corpus_file: Path | None) -> Iterator[RealDocument]:
    """Yield the documents of a corpus; without one, documents of 330 made words."""
    if corpus_file is not None:
        yield from read_documents(corpus_file)
        return
    for number, text in enumerate(corpus.texts(documents=_MADE_DOCUMENTS, words=_MADE_WORDS)):
        yield RealDocument(f"made-{number}", f"Document {number}", "en", ("made", "made.main"), text)
