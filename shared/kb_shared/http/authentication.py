"""Who calls: `Authorization: Bearer kb_<key id>_<secret>`, an organization's key with scopes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from kb_shared.errors import NotFound, RequestError
from kb_shared.gathering import Gathering
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import Scope, StoredKey
from kb_shared.mongo.database import Database

_bearer = HTTPBearer(auto_error=False, description="An API key, `kb_<key id>_<secret>`.")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose key came with the request; it is the organization of the path."""

    organization_id: str
    key_id: str
    scopes: frozenset[Scope]

    def check(self, scope: Scope) -> None:
        """Raises RequestError 403 unless the key has the scope; `admin` implies every one."""
        if not self.scopes & {scope, Scope.ADMIN}:
            raise RequestError(403, "missing-scope", f"This needs a key with the scope {scope.value!r}.")


class Authentication:
    """Tells who calls; `create_app` keeps it in the state of the application.

    Keys that come at the same time are looked up together, each after it came: one that is revoked is refused by the
    next request.
    """

    def __init__(self, database: Database, *, pepper: str) -> None:
        self._database = database
        self._pepper = pepper
        self._stored = Gathering(self._find)

    async def _find(self, key_ids: Sequence[str]) -> Mapping[str, StoredKey]:
        return await api_keys.find_all(self._database, key_ids)

    async def caller(self, whole_key: str) -> Caller:
        """Raises RequestError 401 unless the key is right, unexpired and not revoked."""
        key_id = api_keys.key_id_of(whole_key)
        stored = None if key_id is None else await self._stored(key_id)
        key = api_keys.authenticated(stored, whole_key, pepper=self._pepper)
        if key is None:
            raise _unauthenticated("This API key is not valid: wrong, expired or revoked.")
        return Caller(key.organization_id, key.key_id, key.scopes)


def require(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """The dependency that gives the `Caller` of a route below `/v0/orgs/{organization_id}`.

    401 without a valid key; 404 if the path names another organization, as for anything that is not there; 403 if
    the key lacks `scope`. `admin` implies every scope.
    """

    async def caller(
        request: Request,
        organization_id: str,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> Caller:
        found = await caller_of(request, credentials)
        if found.organization_id != organization_id:
            raise NotFound("resource")
        found.check(scope)
        return found

    return caller


async def caller_of(request: Request, credentials: HTTPAuthorizationCredentials | None = None) -> Caller:
    """Whose key came with the request, for a route whose path names no organization. Raises RequestError 401."""
    credentials = credentials or await _bearer(request)
    if credentials is None:
        raise _unauthenticated("Send `Authorization: Bearer kb_<key id>_<secret>`.")
    authentication: Authentication = request.app.state.authentication
    return await authentication.caller(credentials.credentials)


def _unauthenticated(detail: str) -> RequestError:
    return RequestError(401, "unauthenticated", detail)
