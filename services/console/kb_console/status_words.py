"""States in words, each with the tone in which it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from kb_contracts.api.knowledge_bases import KnowledgeBaseView

Tone = Literal["good", "busy", "bad", "idle"]


@dataclass(frozen=True, slots=True)
class StatusWords:
    words: str
    tone: Tone


PAUSED: Final = StatusWords("paused", "idle")
OF_KNOWLEDGE_BASE: Final[Mapping[str, StatusWords]] = {
    "creating": StatusWords("creating", "busy"),
    "building": StatusWords("building search indexes", "busy"),
    "indexing": StatusWords("indexing", "busy"),
    "active": StatusWords("active", "good"),
    "error": StatusWords("error", "bad"),
}
OF_DOCUMENT: Final[Mapping[str, StatusWords]] = {
    "indexed": StatusWords("indexed", "good"),
    "pending": StatusWords("pending", "busy"),
    "running": StatusWords("being indexed", "busy"),
    "waiting_for_text": StatusWords("waiting for its text", "idle"),
    "failed": StatusWords("failed", "bad"),
    "paused": PAUSED,
    "empty": StatusWords("without text", "idle"),
    "not_in_knowledge_base": StatusWords("not in this knowledge base", "idle"),
}
OF_STAGE: Final[Mapping[str, StatusWords]] = {
    "available": StatusWords("has a text", "good"),
    "waiting_for_text": StatusWords("waiting for its text", "idle"),
    "deleted": StatusWords("deleted", "idle"),
}
"""States of a document whatever knowledge bases have it."""
OF_ENTRY: Final[Mapping[str, StatusWords]] = {
    "ready": StatusWords("searchable", "good"),
    "pending": StatusWords("being indexed", "busy"),
    "error": StatusWords("not indexed", "bad"),
}
OF_SOURCE_RUN: Final[Mapping[str, StatusWords]] = {
    "waiting": StatusWords("waiting for a runner", "busy"),
    "running": StatusWords("running", "busy"),
    "ok": StatusWords("ok", "good"),
    "partial": StatusWords("partial", "idle"),
    "error": StatusWords("error", "bad"),
}
OF_JOB: Final[Mapping[str, str]] = {
    "scan": "Finding the documents with its tags",
    "reindex": "Indexing all documents again",
    "retry_failed": "Trying failed documents again",
    "resume": "Continuing after the pause",
}
CANCELLABLE_JOBS: Final = frozenset({"reindex", "retry_failed"})
"""Kinds of jobs without which a knowledge base misses nothing."""
UNFINISHED: Final = frozenset({"creating", "building", "indexing"})
"""States of a knowledge base that change by themselves."""


def status_of(kb: KnowledgeBaseView) -> StatusWords:
    """Return the state of a knowledge base; one that is paused says so, unless it is broken."""
    if kb.paused_at is not None and kb.status != "error":
        return PAUSED
    return words_of_status(kb.status)


def words_of_status(status: str) -> StatusWords:
    """Return the words of a state of a knowledge base, where that is all that is known of it."""
    return OF_KNOWLEDGE_BASE.get(status, StatusWords(status, "idle"))


def status_of_document(status: str) -> StatusWords:
    """Return the words of a state; one that this version does not know speaks for itself."""
    return OF_DOCUMENT.get(status, StatusWords(status.replace("_", " "), "idle"))


def is_unfinished(kb: KnowledgeBaseView) -> bool:
    """Say whether the state of a knowledge base will change without anybody doing anything."""
    return kb.paused_at is None and kb.status in UNFINISHED


def language_of(text_analyzer: str) -> str:
    """Return the language that an analyzer of words is for, as people call it."""
    name = text_analyzer.removeprefix("lucene.")
    return "any: words as they are written" if name == "standard" else name.capitalize()
