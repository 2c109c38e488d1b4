"""The choice of who answers in a chat, and from what: read from the address of a page, from a form and from a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import FormData, QueryParams

from kb_contracts.api.runs import RunSummary

AGENT: Final = "agent:"
PROMPT: Final = "prompt:"
_FIELDS: Final = ("with", "kb", "model", "document")


@dataclass(frozen=True, slots=True)
class ChatChoice:
    answerer: str = ""
    """`agent:` or `prompt:` with an id; empty: a chat model by itself."""
    kb_ids: tuple[str, ...] = ()
    model: str = ""
    """Chat model, if it answers by itself; empty: that of the deployment."""
    document_id: str = ""
    """Document that the question is about, or empty."""

    @classmethod
    def from_fields(cls, fields: QueryParams | FormData) -> "ChatChoice | None":
        """Return the choice that an address or a form has; None if it has none."""
        if not any(name in fields for name in _FIELDS):
            return None
        kb_ids = tuple(value for value in fields.getlist("kb") if isinstance(value, str) and value)
        return cls(
            str(fields.get("with", "")), kb_ids, str(fields.get("model", "")), str(fields.get("document", "")).strip()
        )

    @classmethod
    def from_run(cls, run: RunSummary) -> "ChatChoice":
        """Return the choice of a run, so that the next question of the conversation is asked in the same way."""
        document_id = run.document_id or ""
        if run.agent_id is not None:
            return cls(AGENT + run.agent_id, document_id=document_id)
        if run.prompt_id is not None:
            return cls(PROMPT + run.prompt_id, document_id=document_id)
        return cls("", tuple(run.kb_ids), run.model, document_id)

    @property
    def is_empty(self) -> bool:
        """Return whether an answer could come only from what the model has learnt."""
        return not (self.answerer or self.kb_ids or self.document_id)

    def query(self) -> Mapping[str, object]:
        """Return the parameters of the address."""
        return {"with": self.answerer, "kb": list(self.kb_ids), "model": self.model, "document": self.document_id}

    def run_arguments(self) -> dict[str, Any]:
        """Return the arguments of a run. What does not fit together is left to the API, which says so."""
        arguments: dict[str, Any] = {"document_id": self.document_id or None}
        if self.answerer.startswith(AGENT):
            return arguments | {"agent_id": self.answerer.removeprefix(AGENT)}
        if self.answerer.startswith(PROMPT):
            # Without any, those of the prompt.
            return arguments | {
                "prompt_id": self.answerer.removeprefix(PROMPT),
                "kb_ids": list(self.kb_ids) or None,
            }
        return arguments | {"kb_ids": list(self.kb_ids), "model": self.model or None}
