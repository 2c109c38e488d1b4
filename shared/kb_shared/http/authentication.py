"""Who calls: `Authorization: Bearer kb_<key id>_<secret>`, an organization's key with scopes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from kb_shared.errors import NotFound, RequestError
from kb_shared.gathering import Gathering
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import ApiKey, Scope, StoredKey
from kb_shared.mongo.database import Database

_MOST_KNOWN: Final = 10_000

_bearer = HTTPBearer(auto_error=False, description="An API key, `kb_<key id>_<secret>`.")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose key came with the request; it is the organization of the path."""

    organization_id: str
    key_id: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """`admin` implies every scope."""
        return bool(self.scopes & {scope, Scope.ADMIN})

    def check(self, scope: Scope) -> None:
        """Raises RequestError 403 unless the key has the scope."""
        if not self.may(scope):
            raise RequestError(403, "missing-scope", f"This needs a key with the scope {scope.value!r}.")


@dataclass(frozen=True, slots=True)
class PresumedKey:
    """A key that was right when this process last looked at it."""

    stored: StoredKey
    """What it was then."""
    look_again: Callable[[], Awaitable[Caller]]
    """Look at it now. Raises RequestError 401, 403, NotFound."""


@dataclass(frozen=True, slots=True)
class PresumedCaller:
    """Who calls, if their key still is what it was: whoever does something for them looks at it again."""

    caller: Caller
    key: PresumedKey | None
    """None: it was looked at for this request."""


class Authentication:
    """Tells who calls; `create_app` keeps it in the state of the application.

    Keys that come at the same time are looked up together, each after it came: one that is revoked is refused by the
    next request.
    """

    def __init__(self, database: Database, *, pepper: str) -> None:
        self._database = database
        self._pepper = pepper
        self._stored = Gathering(self._find)
        self._known: dict[str, StoredKey] = {}

    async def _find(self, key_ids: Sequence[str]) -> Mapping[str, StoredKey]:
        return await api_keys.find_all(self._database, key_ids)

    async def caller(self, whole_key: str) -> Caller:
        """Raises RequestError 401 unless the key is right, unexpired and not revoked."""
        key_id = api_keys.key_id_of(whole_key)
        stored = None if key_id is None else await self._stored(key_id)
        key = api_keys.authenticated(stored, whole_key, pepper=self._pepper)
        if key is None:
            self._known.pop(key_id or "", None)
            raise _unauthenticated("This API key is not valid: wrong, expired or revoked.")
        if stored is not None:
            self._note(stored)
        return _caller(key)

    def known(self, whole_key: str) -> StoredKey | None:
        """What the key was when it was last looked at; None if it was not right, or never looked at."""
        stored = self._known.get(api_keys.key_id_of(whole_key) or "")
        return stored if api_keys.authenticated(stored, whole_key, pepper=self._pepper) else None

    def _note(self, stored: StoredKey) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[stored.key.key_id] = stored


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


def presume(scope: Scope) -> Callable[..., Awaitable[PresumedCaller]]:
    """The same for a route that looks at the key of its `PresumedCaller` again before it does or answers anything."""
    required = require(scope)

    async def caller(
        request: Request,
        organization_id: str,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> PresumedCaller:
        look_again = partial(required, request, organization_id, credentials)
        stored = None if credentials is None else _authentication(request).known(credentials.credentials)
        if stored is not None:
            found = _caller(stored.key)
            if found.organization_id == organization_id and found.may(scope):
                return PresumedCaller(found, PresumedKey(stored, look_again))
        return PresumedCaller(await look_again(), None)

    return caller


async def caller_of(request: Request, credentials: HTTPAuthorizationCredentials | None = None) -> Caller:
    """Whose key came with the request, for a route whose path names no organization. Raises RequestError 401."""
    credentials = credentials or await _bearer(request)
    if credentials is None:
        raise _unauthenticated("Send `Authorization: Bearer kb_<key id>_<secret>`.")
    return await _authentication(request).caller(credentials.credentials)


def _authentication(request: Request) -> Authentication:
    authentication: Authentication = request.app.state.authentication
    return authentication


def _caller(key: ApiKey) -> Caller:
    return Caller(key.organization_id, key.key_id, key.scopes)


def _unauthenticated(detail: str) -> RequestError:
    return RequestError(401, "unauthenticated", detail)
