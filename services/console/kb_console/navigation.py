"""The pages of the console in four groups, as its navigation lists them."""

from typing import Final

PRODUCT_NAME: Final = "KB Console"
NAVIGATION: Final = (
    ("Use", (
        ("chat", "Chat", ("chat",)),
        ("search", "Search", ("search",)),
    )),
    ("Content", (
        ("knowledge-bases", "Knowledge bases", ("knowledge-bases",)),
        ("documents", "Documents", ("documents",)),
        ("knowledge", "Entries", ("knowledge",)),
        ("sources", "Sources", ("knowledge", "sources")),
        ("Tags", "Tags", ("settings", "tags")),
    )),
    ("Build", (
        ("agents", "Agents", ("agents",)),
        ("prompts", "Prompts", ("prompts",)),
    )),
    ("Run", (
        ("insights", "Insights", ("insights",)),
        ("usage", "Usage", ("usage",)),
        ("operations", "Operations", ("operations",)),
        ("API keys", "API keys", ("settings", "keys")),
        ("Providers", "Providers", ("settings", "providers")),
        ("Webhooks", "Webhooks", ("settings", "webhooks")),
        ("Audit log", "Audit log", ("settings", "audit")),
        ("Organization", "Organization", ("settings", "organization")),
    )),
)  # fmt: skip
"""Groups with their pages: the section of a page, its words, and the segments of its address."""
