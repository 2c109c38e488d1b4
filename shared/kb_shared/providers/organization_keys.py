"""Reads and decrypts organizations' own keys of providers, and remembers them for some seconds."""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import Misconfigured, ProviderKeyMissing, UnknownModel
from kb_shared.mongo import llm_providers
from kb_shared.mongo.database import Database
from kb_shared.mongo.llm_providers import LlmProvider
from kb_shared.providers.access import Access
from kb_shared.providers.known_providers import LOCAL, OPENAI, OWN_SERVERS, PROVIDERS, provider_of_prefix
from kb_shared.secrets.key_ring import KeyRing

FRESH_S: Final = 10.0
"""Time for which a key is used after it was changed or deleted on another replica."""
MAX_KNOWN: Final = 1_000


@dataclass(frozen=True, slots=True)
class _CachedAccess:
    access: Access | None
    at: float


@dataclass(frozen=True, slots=True)
class Reach:
    """The provider that a model is asked of."""

    provider: str
    access: Access | None
    """Access of the organization; None: that of the environment."""


class ListedModels(Protocol):
    """A catalogue, of embedding or of chat models."""

    def find_provider(self, name: str) -> str | None: ...
    def provider_of(self, name: str) -> str: ...
    def is_listed(self, provider: str, name: str) -> bool: ...
    def has_key(self, provider: str) -> bool: ...
    def has_address(self, provider: str) -> bool: ...


def check_default_model(setting: str, name: str, catalogue: ListedModels) -> None:
    """Refuse a default that no organization could ever use: better at the start than at each question.

    Whether there is a key, or a server, organizations may say later.

    Raises:
        Misconfigured: nothing is called so.
    """
    servers = [provider for provider in OWN_SERVERS if catalogue.has_address(provider)]
    if catalogue.find_provider(name) is not None or len(servers) == 1:
        return
    forms = ", ".join(f"{PROVIDERS[server].prefixes[0]}/{name}" for server in servers or OWN_SERVERS)
    raise Misconfigured(
        f"{setting}={name}: no model of a known provider is called so, and the name does not say whose it is; for a "
        f"model of a server, write {forms}"
    )


class OrganizationKeys:
    """Keys by organization and provider."""

    def __init__(self, database: Database, key_ring: KeyRing | None) -> None:
        """Construct it; without a key ring no organization's key can be read."""
        self._database = database
        self._key_ring = key_ring
        self._known: BoundedCache[tuple[str, str], _CachedAccess] = BoundedCache(MAX_KNOWN)

    async def find(self, organization_id: str, provider: str) -> Access | None:
        """Return the organization's own key of `provider`; None if it has none and the deployment's is to be used.

        Raises:
            ProviderKeyMissing: it has one that can't be read. The environment's does not stand in for it: that would
                be another's bill.
        """
        now = asyncio.get_running_loop().time()
        known = self._known.find((organization_id, provider))
        if known is None or now - known.at > FRESH_S:
            found = await llm_providers.find(self._database, organization_id, provider)
            known = _CachedAccess(self._opened(found) if found else None, now)
            self._known.put((organization_id, provider), known)
        return known.access

    async def reach(self, organization_id: str, name: str, catalogue: ListedModels) -> Reach:
        """Return the provider of the model `name`: the one that the name says, or else the organization's only server.

        A name that a list has belongs to the server, too, while there is no key of the listed provider: gateways serve
        the models of all providers.

        Raises:
            UnknownModel: the name says no provider, and there is no server, or more than one.
            ProviderKeyMissing: see `find`.
        """
        named = catalogue.find_provider(name)
        if named == LOCAL:
            return Reach(LOCAL, None)
        if named is not None:
            access = await self.find(organization_id, named)
            if self._takes(named, name, access=access, catalogue=catalogue):
                return Reach(named, access)
            if provider_of_prefix(name) not in {None, OPENAI}:
                return Reach(named, None)
        servers = await self._servers(organization_id, catalogue)
        if len(servers) == 1:
            return servers[0]
        if named is None and servers:
            forms = [f"{PROVIDERS[server.provider].prefixes[0]}/{name}" for server in servers]
            raise UnknownModel(f"{name!r} may be a model of {len(servers)} servers; write {' or '.join(forms)}")
        return Reach(catalogue.provider_of(name), None)

    @staticmethod
    def _takes(provider: str, name: str, *, access: Access | None, catalogue: ListedModels) -> bool:
        """Return whether there is access to a provider that may have the model."""
        if catalogue.is_listed(provider, name) or provider not in OWN_SERVERS:
            return access is not None or catalogue.has_key(provider)
        return catalogue.has_address(provider) if access is None else access.api_base is not None

    async def _servers(self, organization_id: str, catalogue: ListedModels) -> list[Reach]:
        """Return the servers that have models of any name."""
        found = [Reach(provider, await self.find(organization_id, provider)) for provider in OWN_SERVERS]
        return [
            each
            for each in found
            if (catalogue.has_address(each.provider) if each.access is None else each.access.api_base is not None)
        ]

    def forget(self, organization_id: str, provider: str) -> None:
        """Read the key again at the next call: this process has changed or deleted it."""
        self._known.discard((organization_id, provider))

    def _opened(self, found: LlmProvider) -> Access:
        if self._key_ring is None:
            raise ProviderKeyMissing("KB_PROVIDER_KEYS, with which this organization's keys are read, is not set")
        return Access(
            api_key=self._key_ring.open(found.sealed, organization_id=found.organization_id, provider=found.provider),
            api_base=found.api_base,
            requests_per_minute=found.requests_per_minute,
            tokens_per_minute=found.tokens_per_minute,
        )
