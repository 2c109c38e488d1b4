"""Shared parts of the pages of an organization's settings."""

from typing import Final

from fastapi import Request
from fastapi.responses import HTMLResponse

from kb_client import AsyncClient
from kb_console.dependencies import Visit
from kb_console.pages import render_page

SETTINGS: Final = "settings"
_CHOICES: Final = 100


def refuse_without_admin(request: Request, visit: Visit, *, to: str, tab: str) -> HTMLResponse | None:
    """Return the page that says that the key lacks the scope admin; None if it has it.

    Args:
        to: what the scope is needed for, such as `see API keys`.
        tab: title of the page.
    """
    if visit.session.has_scope("admin"):
        return None
    return render_page(request, "settings_refused.html", status_code=403, to=to, tab=tab)


async def list_knowledge_base_names(api: AsyncClient) -> list[tuple[str, str]]:
    """Return the id and name of each knowledge base that a form offers."""
    found = await api.knowledge_bases.list(sort="name", limit=_CHOICES)
    return [(kb.kb_id, kb.name) for kb in found.knowledge_bases]
