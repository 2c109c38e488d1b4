"""The form of a prompt: its values as they were typed, and as the API takes them."""

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import FormData

from kb_console.errors import UnusableForm
from kb_contracts.api.prompts import PromptView


@dataclass(frozen=True, slots=True)
class PromptForm:
    name: str = ""
    content: str = ""
    model: str = ""
    """Empty: that of the deployment."""
    schema: str = ""
    """JSON schema of the answer as it was typed; empty: the answer is text."""
    kb_ids: tuple[str, ...] = ()
    auto_search: str = ""
    """`on`, as browsers send a marked box, or empty."""
    etag: str = ""
    """Version that is being changed."""
    idempotency_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """Key with which a form that is sent twice creates one prompt."""

    @classmethod
    def from_form(cls, form: FormData) -> "PromptForm":
        """Return what was typed."""
        typed = {name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__}
        kb_ids = tuple(value for value in form.getlist("kb_ids") if isinstance(value, str))
        return cls(**{**typed, "kb_ids": kb_ids})  # type: ignore[arg-type]  # all others are texts

    @classmethod
    def from_view(cls, prompt: PromptView, etag: str | None) -> "PromptForm":
        schema = prompt.answer_schema
        return cls(
            name=prompt.name,
            content=prompt.content,
            model=prompt.model,
            schema="" if schema is None else json.dumps(schema, ensure_ascii=False, indent=2),
            kb_ids=tuple(prompt.kb_ids),
            auto_search="on" if prompt.auto_search else "",
            etag=etag or "",
        )

    def typed(self) -> dict[str, Any]:
        """Return what can be changed, as it was typed."""
        return {
            "name": self.name,
            "content": self.content,
            "model": self.model,
            "schema": self.schema,
            "kb_ids": list(self.kb_ids),
            "auto_search": bool(self.auto_search),
        }

    def fields(self) -> dict[str, Any]:
        """Return the fields of the prompt.

        Raises:
            UnusableForm: the schema is no JSON object.
        """
        problem = find_problem_of_schema(self.schema)
        if problem is not None:
            raise UnusableForm({"schema": problem})
        return {
            "name": self.name.strip(),
            "content": self.content,
            "model": self.model or None,
            "answer_schema": json.loads(self.schema) if self.schema.strip() else None,
            "kb_ids": list(self.kb_ids),
            "auto_search": bool(self.auto_search),
        }


def find_problem_of_schema(text: str) -> str | None:
    """Return why a text is no JSON object, with the place; None if it is one, or blank. The API checks the rest."""
    if not text.strip():
        return None
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        return f"Not JSON in line {error.lineno}, column {error.colno}: {error.msg}."
    except (ValueError, RecursionError):
        return "Not JSON: a number has too many digits, or it is nested too deeply."
    return None if isinstance(parsed, dict) else 'A JSON schema is an object, such as {"type": "object"}.'
