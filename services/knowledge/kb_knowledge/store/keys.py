"""Keys of what only this service stores: one argument in place of ids that follow each other."""

from dataclasses import dataclass

from kb_shared.mongo.database import Row


@dataclass(frozen=True, slots=True)
class SourceKey:
    """Identifies a source."""

    organization_id: str
    source_id: str

    def to_query(self) -> Row:
        return {"_id": self.source_id, "organization_id": self.organization_id}


@dataclass(frozen=True, slots=True)
class SourceRunKey:
    """Identifies a run of a source."""

    organization_id: str
    source_id: str
    run_id: str

    @property
    def source(self) -> SourceKey:
        return SourceKey(self.organization_id, self.source_id)

    def to_query(self) -> Row:
        return {"_id": self.run_id, "organization_id": self.organization_id, "source_id": self.source_id}


@dataclass(frozen=True, slots=True)
class McpServerKey:
    """Identifies an MCP server."""

    organization_id: str
    mcp_server_id: str

    def to_query(self) -> Row:
        return {"_id": self.mcp_server_id, "organization_id": self.organization_id}
