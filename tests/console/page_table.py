"""All pages of the console, in one table: each is tried in light, dark and on a phone, and photographed.

A page that is added to the console is added here. Names in braces are those of `example_data.make_examples`.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ListedPage:
    name: str
    """Name of its picture."""
    path: str
    """Path below the organization."""


_KB: Final = "/knowledge-bases/{kb_id}"
_KNOWLEDGE: Final = "/knowledge"
PAGES: Final = (
    ListedPage("knowledge-bases", "/knowledge-bases"),
    ListedPage("knowledge-bases-no-match", "/knowledge-bases?q=nothing-has-this-name"),
    ListedPage("create", "/knowledge-bases/new"),
    ListedPage("overview", _KB),
    ListedPage("documents", _KB + "/documents"),
    ListedPage("document", _KB + "/documents/{document_id}"),
    ListedPage("document-unknown", _KB + "/documents/unknown"),
    ListedPage("search-test", _KB + "/search?q=descale+the+pump"),
    ListedPage(
        "search-compare", _KB + "/search?q=descale+the+pump&compare=true&b_mode=text&key=year&op=%24eq&value=2026"
    ),
    ListedPage("search-empty", _KB + "/search"),
    ListedPage("search-several", "/search?q=pump"),
    ListedPage("help", "/help"),
    ListedPage("settings-of-knowledge-base", _KB + "/settings"),
    ListedPage("tool-schema", _KB + "/tool"),
    ListedPage("delete", _KB + "/delete"),
    ListedPage("reindex", _KB + "/reindex"),
    ListedPage("organization-documents", "/documents"),
    ListedPage("document-without-knowledge-base", "/documents/supplier-prices"),
    ListedPage("knowledge", _KNOWLEDGE),
    ListedPage("knowledge-search", _KNOWLEDGE + "/search?q=descale"),
    ListedPage("entry-new", _KNOWLEDGE + "/new"),
    ListedPage("entry", _KNOWLEDGE + "/entries/{entry_id}"),
    ListedPage("entry-delete", _KNOWLEDGE + "/entries/{entry_id}/delete"),
    ListedPage("import", _KNOWLEDGE + "/import"),
    ListedPage("free-text", _KNOWLEDGE + "/structure"),
    ListedPage("proposal", _KNOWLEDGE + "/check-ins/{check_in_id}"),
    ListedPage("entities", _KNOWLEDGE + "/entities"),
    ListedPage("entity", _KNOWLEDGE + "/entities/user:alice"),
    ListedPage("entity-delete", _KNOWLEDGE + "/entities/user:alice/delete"),
    ListedPage("graph", _KNOWLEDGE + "/graph?entity_id=user:alice&depth=2"),
    ListedPage("node", _KNOWLEDGE + "/graph/nodes/user:alice"),
    ListedPage("node-delete", _KNOWLEDGE + "/graph/nodes/user:alice/delete"),
    ListedPage("sources", _KNOWLEDGE + "/sources"),
    ListedPage("source-new", _KNOWLEDGE + "/sources/new"),
    ListedPage("source", _KNOWLEDGE + "/sources/{source_id}"),
    ListedPage("source-delete", _KNOWLEDGE + "/sources/{source_id}/delete"),
    ListedPage("mcp-servers", _KNOWLEDGE + "/mcp-servers"),
    ListedPage("mcp-server", _KNOWLEDGE + "/mcp-servers/{mcp_server_id}"),
    ListedPage("chat-new", "/chat"),
    ListedPage("chat", "/chat/{thread_id}"),
    ListedPage("chat-choices", "/chat/{thread_id}?choose=true"),
    ListedPage("chat-delete", "/chat/{thread_id}/delete"),
    ListedPage("passage", _KB + "/passages/{chunk_id}?document={document_id}&run={run_id}"),
    ListedPage("agents", "/agents"),
    ListedPage("agent-new", "/agents/new"),
    ListedPage("agent", "/agents/{agent_id}"),
    ListedPage("agent-tried", "/agents/{agent_id}?thread={thread_id}"),
    ListedPage("agent-add-tool", "/agents/{agent_id}?add=list"),
    ListedPage("agent-configure-tool", "/agents/{agent_id}?edit={tool_id}"),
    ListedPage("agent-delete", "/agents/{agent_id}/delete"),
    ListedPage("prompts", "/prompts"),
    ListedPage("prompt-new", "/prompts/new"),
    ListedPage("prompt", "/prompts/{prompt_id}"),
    ListedPage("prompt-tried", "/prompts/{prompt_id}?run={run_id}"),
    ListedPage("prompt-delete", "/prompts/{prompt_id}/delete"),
)
OPERATOR_PAGES: Final = (
    ListedPage("operations", "/operations"),
    ListedPage("dead-letters", "/operations/dead-letters?show=all"),
    ListedPage("drift", "/operations/drift"),
    ListedPage("jobs", "/operations/jobs"),
    ListedPage("insights", "/insights"),
    ListedPage("usage", "/usage?by=kb"),
    ListedPage("budget", "/usage/budget"),
    ListedPage("api-keys", "/settings/keys"),
    ListedPage("providers", "/settings/providers"),
    ListedPage("tags", "/settings/tags"),
    ListedPage("webhooks", "/settings/webhooks"),
    ListedPage("audit-log", "/settings/audit"),
)
"""Pages that are only photographed: `test_operator_stories.py` tries them."""
