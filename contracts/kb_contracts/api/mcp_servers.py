"""MCP servers that sources read resources from."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, Field, StringConstraints

from kb_contracts.api.knowledge_sources import SourceAddress
from kb_contracts.api.model import Name, StrictModel, example

HeaderName = Annotated[str, StringConstraints(max_length=100, pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, StringConstraints(min_length=1, max_length=4_000, pattern=r"^[\x20-\x7e]+$")]
McpHeaders = Annotated[dict[HeaderName, HeaderValue], Field(max_length=20)]

_SERVER: Final = {
    "mcp_server_id": "65f1c2a3b4d5e6f708192a74",
    "label": "Wiki",
    "url": "https://wiki.example.com/mcp",
    "header_names": ["Authorization"],
    "created_at": "2026-01-29T12:00:00Z",
    "created_by": "3f9c1d2e4b5a6978",
    "updated_at": "2026-01-29T12:00:00Z",
    "updated_by": "3f9c1d2e4b5a6978",
}


class CreateMcpServer(StrictModel):
    model_config = example(
        {"label": "Wiki", "url": "https://wiki.example.com/mcp", "headers": {"Authorization": "Bearer SECRET"}}
    )

    label: Name
    url: SourceAddress = Field(description="Address of the server's streamable HTTP endpoint.")
    headers: McpHeaders = Field(
        default={},
        description="Headers to send, such as `Authorization`; stored encrypted and never returned.",
    )


class UpdateMcpServer(StrictModel):
    """Fields that are left out stay as they are."""

    model_config = example({"label": "Wiki of the company"})

    label: Name | None = None
    url: SourceAddress | None = Field(
        default=None, description="Another address. Headers are not sent to another origin: give them, too."
    )
    headers: McpHeaders | None = Field(default=None, description="All headers to send.")


class McpServerView(BaseModel):
    model_config = example(_SERVER)

    mcp_server_id: str
    label: str
    url: str
    header_names: list[str] = Field(description="Names of the headers that are sent; their values are never returned.")
    created_at: datetime
    created_by: str = Field(description="Id of the API key that created it.")
    updated_at: datetime
    updated_by: str = Field(description="Id of the API key that made the last change.")


class McpServerList(BaseModel):
    model_config = example({"mcp_servers": [_SERVER], "total_count": 1})

    mcp_servers: list[McpServerView]
    total_count: int
