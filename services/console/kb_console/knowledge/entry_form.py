"""The form of an entry: its values as they were typed, and as the API takes them."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import FormData

from kb_console.typed_words import split_words
from kb_contracts.api.knowledge_entries import EntryView


@dataclass(frozen=True, slots=True)
class EntryForm:
    title: str = ""
    content: str = ""
    tags: str = ""
    """Ids, with commas or blanks between them."""
    type: str = "note"
    knowledge_type: str = ""
    """Empty: the entry is no piece."""
    info_type: str = ""
    entity_id: str = ""
    embedding_text: str = ""
    override_reason: str = ""
    """Why a text that looks as if it contained a credential contains none."""
    entry_id: str = ""
    """Id of a new entry; empty: a generated one."""
    idempotency_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """Key with which a form that is sent twice creates one entry."""

    @classmethod
    def from_form(cls, form: FormData) -> "EntryForm":
        """Return what was typed. Browsers send lines with a carriage return, which is not part of the text."""
        typed = {name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__}
        return cls(**{name: value.replace("\r\n", "\n") for name, value in typed.items()})

    @classmethod
    def from_view(cls, entry: EntryView) -> "EntryForm":
        return cls(
            title=entry.title,
            content=entry.content,
            tags=", ".join(entry.tags),
            type=entry.type,
            knowledge_type=entry.knowledge_type or "",
            info_type=entry.info_type or "",
            entity_id=entry.entity_id or "",
            embedding_text=entry.embedding_text or "",
        )

    def changeable(self) -> dict[str, Any]:
        """Return the fields that an existing entry can change."""
        return {
            "title": self.title.strip(),
            "content": self.content,
            "tags": split_words(self.tags),
            "type": self.type.strip(),
            "knowledge_type": self.knowledge_type or None,
            "info_type": self.info_type.strip() or None,
            "entity_id": self.entity_id.strip() or None,
            "embedding_text": self.embedding_text.strip() or None,
        }

    def override(self) -> dict[str, str]:
        """Return the reason that a call has if the content check refused the texts before."""
        reason = self.override_reason.strip()
        return {"override_reason": reason} if reason else {}

    def creation(self) -> dict[str, Any]:
        """Return the arguments of the call that creates the entry."""
        named = {"title": self.title.strip() or None, "entry_id": self.entry_id.strip() or None}
        return {**self.changeable(), **named, **self.override()}
