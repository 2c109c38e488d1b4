"""Who calls: `Authorization: Bearer kb_<key id>_<secret>`, an organization's key with scopes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from fastapi import Request
from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
from fastapi.security import HTTPBearer
from fastapi.security.base import SecurityBase
from pymongo.errors import PyMongoError

from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.dependencies import get_provided
from kb_shared.http.failed_authentications import FailedAuthentications
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import ApiKey, Scope, StoredKey
from kb_shared.mongo.database import Database
from kb_shared.secrets.peppers import Peppers

_MOST_KNOWN: Final = 10_000

_bearer = HTTPBearer(auto_error=False)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of a request: the owner of its key, in the organization of the path."""

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
class CachedKey:
    """A key that was right when this process last looked at it: whoever does something for it looks at it again."""

    stored: StoredKey
    """Row of the key as last read."""
    looked_at: bool
    """For this request."""
    look_again: Callable[[], Awaitable["CachedKey"]]
    """Look at it now. Raises RequestError 401, 403, NotFound."""

    @property
    def caller(self) -> Caller:
        return _caller(self.stored.key)


class Authentication:
    """Finds out who calls; `create_app` provides it to the routes.

    Keys that come at the same time are looked up together, each after it came: one that is revoked is refused by the
    next request.
    """

    def __init__(self, database: Database, *, peppers: Peppers, failures: FailedAuthentications) -> None:
        self.failures = failures
        self._database = database
        self._peppers = peppers
        self._stored = BatchLoader(self._find)
        self._known: BoundedCache[str, StoredKey] = BoundedCache(_MOST_KNOWN)

    async def _find(self, key_ids: Sequence[str]) -> Mapping[str, StoredKey]:
        return await api_keys.find_all(self._database, key_ids)

    async def look(self, whole_key: str) -> StoredKey:
        """Raises RequestError 401 unless the key is right, unexpired and not revoked."""
        key_id = api_keys.key_id_of(whole_key)
        stored = None if key_id is None else await self._stored(key_id)
        is_right = api_keys.authenticated(stored, whole_key, peppers=self._peppers) is not None
        if stored is not None:
            self._remember(stored)
        if stored is None or not is_right:
            raise _unauthenticated("This API key is not valid: wrong, expired or revoked.")
        if await self._rehash(stored, whole_key):
            # As it is now: a search compares it with what is stored.
            return await self.look(whole_key)
        return stored

    def _remember(self, stored: StoredKey) -> None:
        # Also one that was revoked: it is no longer presumed to be right.
        self._known.put(stored.key.key_id, stored)

    async def _rehash(self, stored: StoredKey, whole_key: str) -> bool:
        try:
            is_rehashed = await api_keys.rehash(self._database, stored, whole_key, peppers=self._peppers)
        except PyMongoError as error:
            # The key is right all the same; its next request tries again.
            log.warning("api_key.not_rehashed", key_id=stored.key.key_id, error=type(error).__name__)
            return False
        if is_rehashed:
            log.info("api_key.rehashed", key_id=stored.key.key_id, organization_id=stored.key.organization_id)
        return is_rehashed

    def known(self, whole_key: str) -> StoredKey | None:
        """Return the key as last read; None if it was not valid then, or has expired."""
        stored = self._known.find(api_keys.key_id_of(whole_key) or "")
        return stored if api_keys.authenticated(stored, whole_key, peppers=self._peppers) else None


class ForOrganization(SecurityBase):
    """A dependency of routes below `/v0/orgs/{organization_id}`.

    The route admits the caller before it reads anything else of the request (`StrictRoute`), and FastAPI is given what
    came of that. It reads the header itself: a dependency of a dependency costs a search as much as looking at the key.
    """

    model = HTTPBearerModel(description="An API key, `kb_<key id>_<secret>`.")
    scheme_name = "HTTPBearer"

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def __call__(self, request: Request, organization_id: str) -> "Caller | CachedKey":  # noqa: ARG002  # in OpenAPI
        """Return what `admit` returned."""
        admitted: Caller | CachedKey = request.scope["state"]["admitted"]
        return admitted

    async def admit(self, request: Request, organization_id: str, *, at_once: bool) -> "Caller | CachedKey":
        """Find out who calls, by the head of the request alone.

        Args:
            request: whose body need not have come.
            organization_id: in its path.
            at_once: whether the key must be looked at now, and may not be presumed.

        Raises:
            RequestError: 401 without a valid key; 403 if the key lacks the scope. `admin` implies every scope.
            NotFound: the path names another organization, as for anything that is not there.
        """
        admitted = await self._admitted(request, organization_id, at_once=at_once)
        request.scope["state"]["admitted"] = admitted
        return admitted

    async def _admitted(self, request: Request, organization_id: str, *, at_once: bool) -> "Caller | CachedKey":
        raise NotImplementedError

    def _check(self, caller: Caller, organization_id: str) -> Caller:
        if caller.organization_id != organization_id:
            raise NotFound("resource")
        caller.check(self._scope)
        return caller


class CallerWith(ForOrganization):
    """Gives the `Caller` of a key with a scope."""

    async def _admitted(self, request: Request, organization_id: str, *, at_once: bool) -> Caller:  # noqa: ARG002  # it always does
        return self._check(await caller_of(request), organization_id)


class CachedKeyWith(ForOrganization):
    """Gives a `CachedKey`.

    For a route that looks at the key again before it pays for something, and in what it answers.
    """

    async def _admitted(self, request: Request, organization_id: str, *, at_once: bool) -> CachedKey:
        authentication, whole_key = _authentication(request), await _whole_key(request)

        async def look_again() -> CachedKey:
            found = CachedKey(await _looked_at(request, whole_key), looked_at=True, look_again=look_again)
            self._check(found.caller, organization_id)
            request.scope["state"]["admitted"] = found
            return found

        stored = None if at_once else authentication.known(whole_key)
        if stored is None or stored.key.organization_id != organization_id or not _caller(stored.key).may(self._scope):
            return await look_again()
        return CachedKey(stored, looked_at=False, look_again=look_again)


async def caller_of(request: Request) -> Caller:
    """Read the key of the request from MongoDB. Raises RequestError 401."""
    return _caller((await _looked_at(request, await _whole_key(request))).key)


async def _whole_key(request: Request) -> str:
    if len(request.headers.getlist("authorization")) > 1:
        # A proxy may have looked at the other one.
        raise _failed(request, _unauthenticated("Send one header `Authorization`; there are several."), None)
    credentials = await _bearer(request)
    if credentials is None:
        raise _failed(request, _unauthenticated("Send `Authorization: Bearer kb_<key id>_<secret>`."), None)
    return credentials.credentials


async def _looked_at(request: Request, whole_key: str) -> StoredKey:
    """Look at a key now. Raises RequestError 401, or 429 after too many failures."""
    try:
        return await _authentication(request).look(whole_key)
    except RequestError as failure:
        raise _failed(request, failure, api_keys.key_id_of(whole_key)) from None


def _failed(request: Request, failure: RequestError, key_id: str | None) -> RequestError:
    address = request.client.host if request.client else ""
    return _authentication(request).failures.refusal(failure, address=address, key_id=key_id)


def _authentication(request: Request) -> Authentication:
    return get_provided(request.app, Authentication)


def _caller(key: ApiKey) -> Caller:
    return Caller(key.organization_id, key.key_id, key.scopes)


def _unauthenticated(detail: str) -> RequestError:
    return RequestError(401, "unauthenticated", detail)
