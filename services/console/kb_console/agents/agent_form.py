"""The forms of an agent and of its tools: their values as they were typed, and as the API takes them."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import FormData

from kb_console.typed_numbers import TypedNumbers
from kb_contracts.api.agents import AgentView, ToolView


@dataclass(frozen=True, slots=True)
class AgentForm:
    name: str = ""
    instructions: str = ""
    model: str = ""
    """Empty: that of the deployment."""
    max_iterations: str = ""
    """Empty: those of the deployment."""
    auto_search: str = ""
    """`on`, as browsers send a marked box, or empty."""
    temperature: str = ""
    """Empty: the usual one."""
    max_output_tokens: str = ""
    """Empty: that of the deployment."""
    etag: str = ""
    """Version that is being changed."""
    idempotency_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """Key with which a form that is sent twice creates one agent."""

    @classmethod
    def from_form(cls, form: FormData) -> "AgentForm":
        """Return what was typed."""
        return cls(**{name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__})

    @classmethod
    def from_view(cls, agent: AgentView, etag: str | None) -> "AgentForm":
        return cls(
            name=agent.name,
            instructions=agent.instructions,
            model=agent.model,
            max_iterations="" if agent.max_iterations is None else str(agent.max_iterations),
            auto_search="on" if agent.auto_search else "",
            temperature="" if agent.temperature is None else str(agent.temperature),
            max_output_tokens="" if agent.max_output_tokens is None else str(agent.max_output_tokens),
            etag=etag or "",
        )

    def typed(self) -> dict[str, Any]:
        """Return what can be changed, as it was typed."""
        return {
            "name": self.name,
            "instructions": self.instructions,
            "model": self.model,
            "max_iterations": self.max_iterations,
            "auto_search": bool(self.auto_search),
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
        }

    def fields(self) -> dict[str, Any]:
        """Return the fields of the agent.

        Raises:
            UnusableForm: a number is none.
        """
        numbers = TypedNumbers()
        max_iterations = numbers.read("max_iterations", self.max_iterations, int)
        temperature = numbers.read("temperature", self.temperature, float)
        max_output_tokens = numbers.read("max_output_tokens", self.max_output_tokens, int)
        numbers.check()
        return {
            "name": self.name.strip(),
            "instructions": self.instructions,
            "model": self.model or None,
            "max_iterations": max_iterations,
            "auto_search": bool(self.auto_search),
            "temperature": temperature,
            "max_output_tokens": max_output_tokens,
        }


@dataclass(frozen=True, slots=True)
class ToolForm:
    kb_id: str = ""
    tool_name: str = ""
    """Empty: made from the name of the knowledge base, as is the description."""
    tool_description: str = ""
    default_top_k: str = "5"
    default_min_score: str = ""

    @classmethod
    def from_form(cls, form: FormData) -> "ToolForm":
        """Return what was typed."""
        return cls(**{name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__})

    @classmethod
    def from_view(cls, tool: ToolView) -> "ToolForm":
        score = "" if tool.default_min_score is None else str(tool.default_min_score)
        return cls(tool.kb_id, tool.tool_name, tool.tool_description, str(tool.default_top_k), score)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the tool that were filled in; no smallest score is one.

        Raises:
            UnusableForm: a number is none.
        """
        numbers = TypedNumbers()
        top_k = numbers.read("default_top_k", self.default_top_k, int)
        fields: dict[str, Any] = {"default_min_score": numbers.read("default_min_score", self.default_min_score, float)}
        numbers.check()
        if top_k is not None:
            fields["default_top_k"] = top_k
        for name, text in (("tool_name", self.tool_name), ("tool_description", self.tool_description)):
            if text.strip():
                fields[name] = text.strip()
        return fields
