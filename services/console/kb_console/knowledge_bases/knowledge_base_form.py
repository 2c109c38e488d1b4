"""The form of a new or an existing knowledge base: its values as they were typed, and as the API takes them."""

import secrets
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

from starlette.datastructures import FormData

from kb_console.typed_numbers import TypedNumbers
from kb_console.typed_words import split_words
from kb_contracts.api.knowledge_bases import ChunkerName, KnowledgeBaseView, TextAnalyzer
from kb_contracts.reserved_ids import is_reserved_tag_id

CHUNKERS: Final = {
    "recursive": "by headings, paragraphs and sentences: the usual choice",
    "sentence": "whole sentences: prose without structure, such as transcripts",
    "token": "every so many tokens: logs, where places of cuts mean nothing",
    "word": "every so many words: as token",
    "semantic": "one subject each: costs more than ten times as many embeddings",
    "sdpm": "as semantic, for texts that return to their subjects",
    "late": "vectors that know the whole text, where its model is installed",
}
DETECTED: Final = "detected"
ANALYZERS: Final = tuple(get_args(TextAnalyzer))
assert tuple(CHUNKERS) == get_args(ChunkerName)


@dataclass(frozen=True, slots=True)
class KnowledgeBaseForm:
    name: str = ""
    description: str = ""
    tag_ids: tuple[str, ...] = ()
    new_tags: str = ""
    """Ids of tags that need not exist yet, with commas or blanks between them."""
    chunker_type: str = "recursive"
    chunk_size: str = ""
    """Empty: the default of the deployment, as below."""
    chunk_overlap: str = ""
    embedding_model: str = ""
    text_analyzer: str = DETECTED
    """Analyzer, or `DETECTED`: that of the language of the sample, or of the documents with the tags."""
    coalesce_neighbors: str = "0"
    min_score: str = ""
    max_chunks_per_document: str = ""
    filterable_metadata: str = ""
    """Keys, with commas or blanks between them."""
    refuse_sensitive: str = ""
    """`on`, as browsers send a marked box, or empty."""
    requests_per_minute: str = ""
    tokens_per_minute: str = ""
    sample: str = ""
    """Text for the preview."""
    sample_document: str = ""
    """Name or id of a stored document for the preview, instead of a text."""
    sample_characters: str = ""
    """Length of the text of a file, of which `sample` may be the beginning."""
    idempotency_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """Key with which a form that is sent twice creates one knowledge base."""

    @classmethod
    def from_form(cls, form: FormData) -> "KnowledgeBaseForm":
        """Return what was typed."""
        typed = {name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__}
        tag_ids = tuple(value for value in form.getlist("tag_ids") if isinstance(value, str))
        return cls(**{**typed, "tag_ids": tag_ids})  # type: ignore[arg-type]  # all others are texts

    @classmethod
    def from_view(cls, kb: KnowledgeBaseView) -> "KnowledgeBaseForm":
        """Return the settings of a knowledge base."""
        limits = kb.rate_limits
        return cls(
            name=kb.name,
            description=kb.description,
            tag_ids=tuple(kb.tag_ids),
            chunker_type=kb.chunker_type,
            chunk_size=str(kb.chunk_size),
            chunk_overlap=str(kb.chunk_overlap),
            embedding_model=kb.embedding_model,
            text_analyzer=kb.text_analyzer,
            coalesce_neighbors=str(kb.coalesce_neighbors),
            min_score=_typed(kb.min_score),
            max_chunks_per_document=str(kb.max_chunks_per_document),
            filterable_metadata=", ".join(kb.filterable_metadata),
            refuse_sensitive="on" if kb.refuse_sensitive else "",
            requests_per_minute=_typed(limits.requests_per_minute),
            tokens_per_minute=_typed(limits.tokens_per_minute),
        )

    @classmethod
    def copy_of(cls, kb: KnowledgeBaseView) -> "KnowledgeBaseForm":
        """Return the settings of a knowledge base, for another one."""
        # The tag of the entries is reserved for their own knowledge base.
        own_tags = tuple(tag_id for tag_id in kb.tag_ids if not is_reserved_tag_id(tag_id))
        return replace(cls.from_view(kb), name=f"{kb.name} (copy)"[:200], tag_ids=own_tags)

    def typed_tags(self) -> list[str]:
        return split_words(self.new_tags)

    def all_tags(self) -> list[str]:
        """Return the chosen tags and those that were typed, each once."""
        return list(dict.fromkeys([*self.tag_ids, *self.typed_tags()]))

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide what passages there are, for a preview.

        Raises:
            UnusableForm: a number is none.
        """
        numbers = TypedNumbers()
        settings = {
            "chunker_type": self.chunker_type,
            "chunk_size": numbers.read("chunk_size", self.chunk_size, int),
            "chunk_overlap": numbers.read("chunk_overlap", self.chunk_overlap, int),
            "embedding_model": self.embedding_model or None,
            "max_chunks_per_document": numbers.read("max_chunks_per_document", self.max_chunks_per_document, int),
        }
        numbers.check()
        return settings

    def creation(self) -> dict[str, Any]:
        """Return the arguments of the call that creates the knowledge base.

        Raises:
            UnusableForm: a number is none.
        """
        return {"text_analyzer": self.text_analyzer, **self.changeable(), **self.settings()}

    def changeable(self) -> dict[str, Any]:
        """Return the fields that an existing knowledge base can change.

        Raises:
            UnusableForm: a number is none.
        """
        numbers = TypedNumbers()
        fields = {
            "name": self.name.strip(),
            "description": self.description,
            "tag_ids": self.all_tags(),
            "coalesce_neighbors": numbers.read("coalesce_neighbors", self.coalesce_neighbors, int) or 0,
            "min_score": numbers.read("min_score", self.min_score, float),
            "filterable_metadata": split_words(self.filterable_metadata),
            # 0 is the limit of the deployment.
            "max_chunks_per_document": numbers.read("max_chunks_per_document", self.max_chunks_per_document, int) or 0,
            "refuse_sensitive": bool(self.refuse_sensitive),
            "rate_limits": {
                name: numbers.read(name, getattr(self, name), int)
                for name in ("requests_per_minute", "tokens_per_minute")
            },
        }
        numbers.check()
        return fields


def _typed(value: float | None) -> str:
    return "" if value is None else str(value)
