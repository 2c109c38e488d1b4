"""The choice of who answers in a chat, and from what: read from the address of a page, from a form and from a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Query
from starlette.datastructures import FormData

from kb_contracts.api.runs import RunSummary

AGENT: Final = "agent:"
PROMPT: Final = "prompt:"


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
    def from_form(cls, fields: FormData) -> "ChatChoice":
        """Return the choice that a form has; it is empty where the form has none."""
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
    def searches_all(self) -> bool:
        """Return whether nothing was chosen to search, which means all knowledge bases."""
        return not (self.answerer or self.kb_ids or self.document_id)

    def query(self) -> Mapping[str, object]:
        """Return the parameters of the address."""
        return {"with": self.answerer, "kb": list(self.kb_ids), "model": self.model, "document": self.document_id}

    def fields(self) -> list[tuple[str, str]]:
        """Return names and values of the fields of a form that has this choice."""
        one_each = [("with", self.answerer), ("model", self.model), ("document", self.document_id)]
        return [(name, value) for name, value in (*one_each, *(("kb", kb_id) for kb_id in self.kb_ids)) if value]

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


async def choice_of_address(
    answerer: Annotated[str | None, Query(alias="with", max_length=200)] = None,
    kb_ids: Annotated[list[str] | None, Query(alias="kb", max_length=100)] = None,
    *,
    model: Annotated[str | None, Query(max_length=200)] = None,
    document_id: Annotated[str | None, Query(alias="document", max_length=200)] = None,
) -> ChatChoice | None:
    """Return the choice that the address of a page has; None if it has none."""
    # A coroutine function, here and in other dependencies: FastAPI calls others in a thread.
    if answerer is None and kb_ids is None and model is None and document_id is None:
        return None
    chosen = tuple(kb_id for kb_id in kb_ids or () if kb_id)
    return ChatChoice(answerer or "", chosen, model or "", (document_id or "").strip())
