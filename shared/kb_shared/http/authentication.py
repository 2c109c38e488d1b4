"""Authenticates callers by API key: `Authorization: Bearer kb_<key id>_<secret>`, with the scopes of the key."""

from abc import ABC, abstractmethod
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

_CACHED_KEYS: Final = 10_000

_bearer = HTTPBearer(auto_error=False)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of a request: the owner of its key, in the organization of the path."""

    organization_id: str
    key_id: str
    scopes: frozenset[Scope]
    kb_ids: frozenset[str] | None = None
    """KBs to which the key is limited; None: all of the organization."""

    def has_scope(self, scope: Scope) -> bool:
        """Return whether the key has the scope. `admin` implies every scope."""
        return bool(self.scopes & {scope, Scope.ADMIN})

    def check(self, scope: Scope) -> None:
        """Check that the key has the scope. Raises RequestError 403."""
        if not self.has_scope(scope):
            raise RequestError(403, "missing-scope", f"This needs a key with the scope {scope.value!r}.")

    def may_use(self, kb_id: str) -> bool:
        """Return whether the key is not limited to other KBs."""
        return self.kb_ids is None or kb_id in self.kb_ids

    def require_knowledge_base(self, kb_id: str) -> None:
        """Raise NotFound, as for a KB that does not exist, if the key is limited to other KBs."""
        if not self.may_use(kb_id):
            raise NotFound("knowledge base")


@dataclass(frozen=True, slots=True)
class CachedKey:
    """A key that was valid when this process last read it. It is read again before a request has an effect."""

    stored: StoredKey
    """Row of the key as last read."""
    is_current: bool
    """True if it was read for this request."""
    read_again: Callable[[], Awaitable["CachedKey"]]
    """Function that reads the key from MongoDB. Raises RequestError 401, 403, NotFound."""

    @property
    def caller(self) -> Caller:
        return _caller(self.stored.key)


class Authentication:
    """Reads API keys and caches them. `create_app` provides it to the routes.

    Keys of concurrent requests are read together, and each after its request came: a key that is revoked is refused
    at the next request.
    """

    def __init__(self, database: Database, *, peppers: Peppers, failures: FailedAuthentications) -> None:
        self.failures = failures
        self._database = database
        self._peppers = peppers
        self._stored = BatchLoader(self._find)
        self._cache: BoundedCache[str, StoredKey] = BoundedCache(_CACHED_KEYS)

    async def _find(self, key_ids: Sequence[str]) -> Mapping[str, StoredKey]:
        return await api_keys.find_all(self._database, key_ids)

    async def read_key(self, whole_key: str) -> StoredKey:
        """Read a key from MongoDB. Raises RequestError 401 unless it is valid, unexpired and not revoked."""
        key_id = api_keys.parse_key_id(whole_key)
        stored = None if key_id is None else await self._stored(key_id)
        is_valid = api_keys.check_key(stored, whole_key, peppers=self._peppers) is not None
        if stored is not None:
            self._remember(stored)
        if stored is None or not is_valid:
            raise _unauthenticated("This API key is not valid: wrong, expired or revoked.")
        if await self._rehash(stored, whole_key):
            # Read it again: a search compares it with the stored one.
            return await self.read_key(whole_key)
        return stored

    def _remember(self, stored: StoredKey) -> None:
        # Also a revoked key, so that it is no longer taken for valid.
        self._cache.put(stored.key.key_id, stored)

    async def _rehash(self, stored: StoredKey, whole_key: str) -> bool:
        try:
            is_rehashed = await api_keys.rehash(self._database, stored, whole_key, peppers=self._peppers)
        except PyMongoError as error:
            # The key is valid anyway; its next request tries again.
            log.warning("api_key.rehash_failed", key_id=stored.key.key_id, error=type(error).__name__)
            return False
        if is_rehashed:
            log.info("api_key.rehashed", key_id=stored.key.key_id, organization_id=stored.key.organization_id)
        return is_rehashed

    def find_cached(self, whole_key: str) -> StoredKey | None:
        """Return the key as last read; None if it was not valid then, or has expired."""
        stored = self._cache.find(api_keys.parse_key_id(whole_key) or "")
        return stored if api_keys.check_key(stored, whole_key, peppers=self._peppers) else None


class OrganizationSecurity(SecurityBase, ABC):
    """Authenticates the caller of a route below `/v0/orgs/{organization_id}`; a dependency of such a route.

    `StrictRoute` calls `admit` before it reads anything else of the request; as a dependency it returns that result. It
    reads the header itself, because a dependency of a dependency costs a search as much as reading the key.
    """

    model = HTTPBearerModel(description="An API key, `kb_<key id>_<secret>`.")
    scheme_name = "HTTPBearer"

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def __call__(self, request: Request, organization_id: str) -> "Caller | CachedKey":  # noqa: ARG002  # in OpenAPI
        """Return what `admit` returned."""
        admitted: Caller | CachedKey = request.scope["state"]["admitted"]
        return admitted

    async def admit(self, request: Request, organization_id: str, *, must_read: bool) -> "Caller | CachedKey":
        """Authenticate the caller, by the head of the request alone.

        Args:
            request: a request whose body need not have come.
            organization_id: organization of the path.
            must_read: whether the key must be read from MongoDB, even if it is cached.

        Raises:
            RequestError: 401 without a valid key; 403 if the key lacks the scope. `admin` implies every scope.
            NotFound: the path names another organization.
        """
        admitted = await self._authenticate(request, organization_id, must_read=must_read)
        request.scope["state"]["admitted"] = admitted
        return admitted

    @abstractmethod
    async def _authenticate(self, request: Request, organization_id: str, *, must_read: bool) -> "Caller | CachedKey":
        """Return the caller or its key. Raises as `admit`."""

    def _check(self, caller: Caller, organization_id: str) -> Caller:
        if caller.organization_id != organization_id:
            raise NotFound("resource")
        caller.check(self._scope)
        return caller


class CallerWith(OrganizationSecurity):
    """Returns the `Caller` of a key with a scope."""

    async def _authenticate(self, request: Request, organization_id: str, *, must_read: bool) -> Caller:  # noqa: ARG002  # it always reads
        return self._check(await authenticate_caller(request), organization_id)


class CachedKeyWith(OrganizationSecurity):
    """Returns a `CachedKey`, for a route that reads the key again before its request has an effect or is answered."""

    async def _authenticate(self, request: Request, organization_id: str, *, must_read: bool) -> CachedKey:
        authentication, whole_key = _authentication(request), await _read_header(request)

        async def read_again() -> CachedKey:
            found = CachedKey(await _read_key(request, whole_key), is_current=True, read_again=read_again)
            self._check(found.caller, organization_id)
            request.scope["state"]["admitted"] = found
            return found

        stored = None if must_read else authentication.find_cached(whole_key)
        if (
            stored is None
            or stored.key.organization_id != organization_id
            or not _caller(stored.key).has_scope(self._scope)
        ):
            return await read_again()
        return CachedKey(stored, is_current=False, read_again=read_again)


async def authenticate_caller(request: Request) -> Caller:
    """Read the key of the request from MongoDB. Raises RequestError 401."""
    return _caller((await _read_key(request, await _read_header(request))).key)


async def _read_header(request: Request) -> str:
    if len(request.headers.getlist("authorization")) > 1:
        # A proxy may have checked the other one.
        raise _failed(request, _unauthenticated("Send one header `Authorization`; there are several."), None)
    credentials = await _bearer(request)
    if credentials is None:
        raise _failed(request, _unauthenticated("Send `Authorization: Bearer kb_<key id>_<secret>`."), None)
    return credentials.credentials


async def _read_key(request: Request, whole_key: str) -> StoredKey:
    """Read a key from MongoDB. Raises RequestError 401, or 429 after too many failures."""
    try:
        return await _authentication(request).read_key(whole_key)
    except RequestError as failure:
        raise _failed(request, failure, api_keys.parse_key_id(whole_key)) from None


def _failed(request: Request, failure: RequestError, key_id: str | None) -> RequestError:
    address = request.client.host if request.client else ""
    return _authentication(request).failures.count_failure(failure, address=address, key_id=key_id)


def _authentication(request: Request) -> Authentication:
    return get_provided(request.app, Authentication)


def _caller(key: ApiKey) -> Caller:
    kb_ids = None if key.kb_ids is None else frozenset(key.kb_ids)
    return Caller(key.organization_id, key.key_id, key.granted_scopes, kb_ids)


def _unauthenticated(detail: str) -> RequestError:
    return RequestError(401, "unauthenticated", detail)
