"""The dependencies of the console's routes: what a handler can ask for in its signature."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import httpx
from fastapi import Depends, Path, Request

from kb_client import AsyncClient
from kb_console import sessions, settings, uploads
from kb_console.addresses import page_address
from kb_console.errors import NotOfThisOrganization, SignedOut
from kb_console.header_count import ask_for_header
from kb_console.known_parameters import require_known_parameters
from kb_console.sessions import ConsoleSession
from kb_shared.http import failed_authentications
from kb_shared.http.dependencies import get_provided, provided

TIMEOUT_S = 30.0
"""Time limit of a call: somebody waits for the page."""

Settings: TypeAlias = Annotated[settings.ConsoleSettings, Depends(provided(settings.ConsoleSettings))]
Sessions: TypeAlias = Annotated[sessions.Sessions, Depends(provided(sessions.Sessions))]
Uploads: TypeAlias = Annotated[uploads.Uploads, Depends(provided(uploads.Uploads))]
FailedAuthentications: TypeAlias = Annotated[
    failed_authentications.FailedAuthentications, Depends(provided(failed_authentications.FailedAuthentications))
]


class ApiClients:
    """Opens clients of the API, all with the same connections."""

    def __init__(self, base_url: str, http: httpx.AsyncClient) -> None:
        self._base_url = base_url
        self._http = http

    def open(self, *, organization_id: str, api_key: str) -> AsyncClient:
        return AsyncClient(
            self._base_url,
            organization=organization_id,
            api_key=api_key,
            timeout_s=TIMEOUT_S,
            # Somebody waits: a page says when to try again, and does not wait for it.
            max_retries=0,
            origin="console",
            http=self._http,
        )


OpenedApi: TypeAlias = Annotated[ApiClients, Depends(provided(ApiClients))]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who is signed in."""

    session: ConsoleSession
    api: AsyncClient

    def address(self, *segments: str, **query: object) -> str:
        """Return the address of a page of this organization."""
        return page_address(self.session.organization_id, *segments, **query)


async def find_visit(request: Request, organization_id: Annotated[str, Path()]) -> Visit:
    """Return the visit that a request belongs to.

    Raises:
        SignedOut: there is no session.
        NotOfThisOrganization: the session is of another organization than the page.
        RequestValidationError: the address has a filter that the page does not have.
    """
    session = get_provided(request.app, sessions.Sessions).find(request)
    if session is None:
        raise SignedOut
    request.scope["state"]["session"] = session
    if session.organization_id != organization_id:
        raise NotOfThisOrganization
    require_known_parameters(request)
    api = get_provided(request.app, ApiClients).open(organization_id=organization_id, api_key=session.api_key)
    if session.has_scope("read"):
        ask_for_header(request, api)
    return Visit(session, api)


Visitor: TypeAlias = Annotated[Visit, Depends(find_visit)]
