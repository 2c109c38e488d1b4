"""Two organizations on one system: one that attacks it, and one that must not notice."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from pymongo import AsyncMongoClient

from kb_local.ports import NO_TLS
from kb_local.stack import Stack
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import ApiKey, Scope
from tests.e2e.system import new_knowledge_base
from tests.waiting import until

REQUEST_TIMEOUT_S = 60.0
"""Timeout of a response, as long as that of `kb_client`; a slower one counts as failed."""


@dataclass(frozen=True, slots=True)
class NeighbourClient:
    """An organization with a key for everything, as it sees the two services."""

    organization_id: str
    whole_key: str
    kb_api_url: str
    kb_search_url: str

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.whole_key}"}

    @property
    def path(self) -> str:
        """The beginning of the paths of all its routes."""
        return f"/v0/orgs/{self.organization_id}"

    def kb_api(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> httpx.AsyncClient:
        return self._client(self.kb_api_url, timeout_s)

    def kb_search(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> httpx.AsyncClient:
        return self._client(self.kb_search_url, timeout_s)

    def _client(self, url: str, timeout_s: float) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=url + self.path,
            headers=self.authorization,
            timeout=timeout_s,
            # A new connection for each request: a server that takes no more of them is noticed.
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
            verify=NO_TLS,
        )

    async def create_knowledge_base(self, tag_id: str, **options: Any) -> str:
        """Create a tag and a knowledge base of it, and return its id when it is active."""
        async with self.kb_api(timeout_s=60) as http:
            (await http.post("/tags", json={"tag_id": tag_id, "name": tag_id})).raise_for_status()
            created = (
                await http.post("/knowledge-bases", json=new_knowledge_base(tag_id, **options))
            ).raise_for_status()
            kb_id = str(created.json()["kb_id"])

            async def is_active() -> bool:
                answer = await http.get(f"/knowledge-bases/{kb_id}")
                return bool(answer.raise_for_status().json()["status"] == "active")

            await until(is_active)
        return kb_id

    async def delete_knowledge_base(self, kb_id: str) -> None:
        """Delete it, and with it what is still to be done for it."""
        async with self.kb_api(timeout_s=60) as http:
            (await http.delete(f"/knowledge-bases/{kb_id}")).raise_for_status()


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A running system and its two organizations."""

    stack: Stack
    measured: NeighbourClient
    attacker: NeighbourClient


async def create_organization(stack: Stack, organization_id: str) -> NeighbourClient:
    """Give an organization a key for everything."""
    key_id, whole_key = api_keys.create_secret_key()
    key = ApiKey(key_id, organization_id, "test", frozenset({Scope.ADMIN}), datetime.now(UTC), None, None)
    async with AsyncMongoClient[dict[str, object]](stack.mongod_uri, tz_aware=True) as client:
        pepper = stack.home.read_secrets().api_key_pepper
        assert await api_keys.insert(client[stack.database], key, whole_key=whole_key, pepper=pepper)
    return NeighbourClient(organization_id, whole_key, stack.services["kb_api"].url, stack.services["kb_search"].url)
