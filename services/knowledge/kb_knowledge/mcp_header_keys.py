"""Holds the keys that encrypt the headers for MCP servers."""

from dataclasses import dataclass

from kb_shared.secrets.key_ring import KeyRing


@dataclass(frozen=True, slots=True)
class McpHeaderKeys:
    key_ring: KeyRing | None
    """Keys; None if this deployment stores no secrets of organizations."""
