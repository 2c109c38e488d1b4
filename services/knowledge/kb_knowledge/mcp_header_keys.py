"""Holds the keys that encrypt the headers for MCP servers, and encrypts them again after a rotation."""

from dataclasses import dataclass

import structlog

from kb_knowledge.store import mcp_servers
from kb_shared.mongo.database import Database
from kb_shared.mongo.majority import majority_reads
from kb_shared.secrets.key_ring import KeyRing, Unreadable

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class McpHeaderKeys:
    key_ring: KeyRing | None
    """Keys; None if this deployment stores no secrets of organizations."""

    async def reseal(self, database: Database) -> None:
        """Encrypt with the first key of the ring all headers that were encrypted with another, which can then go."""
        if self.key_ring is None:
            return
        # A write that only an isolated primary has may be rolled back.
        async with majority_reads(database) as majority:
            sealed_otherwise = await mcp_servers.find_sealed_with_other_key(majority, self.key_ring.current)
        for server in sealed_otherwise:
            bound = {"organization_id": server.organization_id, "mcp_server_id": server.mcp_server_id}
            try:
                headers = mcp_servers.open_headers(self.key_ring, server)
            except Unreadable:
                _log.warning("mcp_server.headers_unreadable", remedy="store its headers again", **bound)
                continue
            await mcp_servers.reseal(database, server, mcp_servers.seal_headers(self.key_ring, server.key, headers))
            _log.info("mcp_server.headers_resealed", **bound)
