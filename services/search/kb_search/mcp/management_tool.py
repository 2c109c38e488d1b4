"""Describes a tool of the MCP endpoint that is one call of the HTTP API."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel

from kb_client.async_client.client import AsyncClient
from kb_contracts.api.model import StrictModel
from kb_shared.mongo.api_keys import Scope

READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
CHANGES: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

ManagementCall: TypeAlias = Callable[[AsyncClient, Any], Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class ManagementTool:
    """A tool that is one call of the HTTP API."""

    name: str
    description: str
    arguments: type[StrictModel]
    operation: ManagementCall
    annotations: ToolAnnotations
    scope: Scope = Scope.WRITE
    """Scope of the keys that get the tool."""

    @property
    def is_read_only(self) -> bool:
        """Return whether a call changes nothing."""
        return self.annotations.read_only_hint is True

    def describe(self) -> Tool:
        return Tool(
            name=self.name,
            description=self.description,
            input_schema=_schema_of(self.arguments),
            annotations=self.annotations,
        )


def _schema_of(arguments: type[StrictModel]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    return {
        "type": "object",
        "properties": {name: _simplify(described) for name, described in schema["properties"].items()},
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _simplify(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument without what tells a model nothing: titles, and that null is like no value.

    Null of an argument without a default removes what is there.
    """
    kept = {key: value for key, value in described.items() if key != "title"}
    if kept.get("default", kept) is not None:
        return kept
    del kept["default"]
    choices = [each for each in kept.pop("anyOf") if each != {"type": "null"}]
    return choices[0] | kept if len(choices) == 1 else kept | {"anyOf": choices}
