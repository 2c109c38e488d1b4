"""`kb knowledge`: entries, imports, and texts that a chat model structures."""

from kb_client.command_line import knowledge_entries, knowledge_imports
from kb_client.command_line.knowledge_group import app

__all__ = ["app", "knowledge_entries", "knowledge_imports"]
