"""The system under load: HTTP and Kafka addresses, organizations with their keys, and the KBs of the load."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.load.population import LoadPartition
from kb_client.events import EventPublisher
from kb_local.stack import Stack
from kb_shared.kafka_connection.connection import KafkaConnection

_TIMEOUT_S: Final = 60
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class OrganizationAccess:
    organization_id: str
    api_key: str


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Calls of one deployment.

    Attributes:
        search_url: base URL of the search service.
        stack: the local stack, if the load has started it.
    """

    api_url: str
    search_url: str
    events: EventPublisher
    http: aiohttp.ClientSession
    keys: Mapping[str, str]
    stack: Stack | None = None

    async def search(self, partition: LoadPartition, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the response."""
        path = f"{self.search_url}/v0/orgs/{partition.organization_id}/knowledge-bases/{partition.kb_id}/search"
        async with self.http.post(path, json=body, headers=self._headers(partition.organization_id)) as response:
            return response.status, await response.json(content_type=None)

    async def call(self, organization_id: str, method: str, path: str, body: Any = None) -> Any:
        """Call kb-api; return the decoded response. Raises `aiohttp.ClientResponseError` on an error."""
        url = f"{self.api_url}/v0/orgs/{organization_id}{path}"
        async with self.http.request(method, url, json=body, headers=self._headers(organization_id)) as response:
            response.raise_for_status()
            return await response.json()

    async def create_knowledge_bases(
        self, run_id: str, *, number: int, settings: Mapping[str, Any]
    ) -> list[LoadPartition]:
        """Create KBs, divided among the organizations in turn, and wait until they can be searched."""
        organizations = list(self.keys)
        owners = [organizations[position % len(organizations)] for position in range(number)]
        partitions = [
            await self._create(owner, f"{run_id}-{position}", settings) for position, owner in enumerate(owners)
        ]
        for partition in partitions:
            while not await self._is_searchable(partition):  # noqa: ASYNC110  # another process works
                await asyncio.sleep(_POLL_S)
        return partitions

    async def _create(self, organization_id: str, tag_id: str, settings: Mapping[str, Any]) -> LoadPartition:
        await self.call(organization_id, "POST", "/tags", {"tag_id": tag_id, "name": tag_id})
        body = {"name": f"Load {tag_id}", "tag_ids": [tag_id], **settings}
        created = await self.call(organization_id, "POST", "/knowledge-bases", body)
        return LoadPartition(organization_id, created["kb_id"], tag_id)

    async def _is_searchable(self, partition: LoadPartition) -> bool:
        view = await self.call(partition.organization_id, "GET", f"/knowledge-bases/{partition.kb_id}")
        return view["status"] in ("active", "indexing")

    def _headers(self, organization_id: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[organization_id]}"}


@dataclass(frozen=True, slots=True)
class LocalStackOptions:
    organizations: int = 1
    indexers: int = 1
    embed_delay_ms: float = 0.0
    services: Sequence[str] = ("kb_api", "kb_search", "kb_reconciler")
    env: Mapping[str, str] = field(default_factory=dict)


@asynccontextmanager
async def local_target(folder: Path, options: LocalStackOptions) -> AsyncIterator[LoadTarget]:
    """Start the local stack in `folder`. Searches go to the search service itself, without the gateway."""
    indexers = ["kb_indexer", *(f"kb_indexer:{number}" for number in range(2, options.indexers + 1))]
    async with AsyncExitStack() as opened:
        stack = await opened.enter_async_context(
            Stack(folder, services=[*options.services, *indexers], env=WITHOUT_LIMITS | dict(options.env))
        )
        keys = await _add_organizations(stack, options.organizations)
        await program_provider(stack, {"delay_ms": options.embed_delay_ms})
        events = await opened.enter_async_context(
            EventPublisher(stack.kafka_connection, source="/benchmarks/load", idempotence=False)
        )
        http = await opened.enter_async_context(_http())
        yield LoadTarget(stack.services["kb_api"].url, stack.services["kb_search"].url, events, http, keys, stack)


@asynccontextmanager
async def remote_target(
    url: str, access: Sequence[OrganizationAccess], environment: Mapping[str, str]
) -> AsyncIterator[LoadTarget]:
    """Connect to a deployment with one base URL. `environment` contains the `KB_KAFKA` settings."""
    connection = KafkaConnection.from_environment(environment)
    prefix = environment.get("KB_KAFKA_TOPIC_PREFIX", "")
    idempotence = environment.get("KB_KAFKA_IDEMPOTENCE", "on") != "off"
    async with (
        EventPublisher(connection, source="/benchmarks/load", topic_prefix=prefix, idempotence=idempotence) as events,
        _http() as http,
    ):
        yield LoadTarget(url, url, events, http, {each.organization_id: each.api_key for each in access})


async def program_provider(stack: Stack, program: Mapping[str, Any]) -> None:
    """Set the delay and the faults of the local embedding provider."""
    address = stack.models_api_base.removesuffix("/v1") + "/admin/hash"
    async with _http() as http, http.put(address, json=dict(program)) as response:
        response.raise_for_status()


async def _add_organizations(stack: Stack, number: int) -> dict[str, str]:
    """Start kb-api once with the first key of each further organization, which then stays valid."""
    keys = {stack.organization_id: stack.api_key}
    first = stack.api_key.rpartition("_")[2]
    for position in range(2, number + 1):
        organization_id = f"load-{position}"
        keys[organization_id] = f"kb_load{position}_{first}"
        await stack.stop_service("kb_api")
        await stack.start_service(
            "kb_api", KB_BOOTSTRAP_ORGANIZATION=organization_id, KB_BOOTSTRAP_ADMIN_KEY=keys[organization_id]
        )
    return keys


def _http() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)
    )


WITHOUT_LIMITS: Final = {
    "KB_ADMINISTRATIVE_CALLS_PER_MINUTE_OF_KEY": "0",
    "KB_ADMINISTRATIVE_CALLS_PER_MINUTE_OF_ORGANIZATION": "0",
    "KB_SEARCHES_PER_MINUTE_OF_KEY": "0",
    "KB_SEARCHES_PER_MINUTE_OF_ORGANIZATION": "0",
    "KB_HTTP_MAX_REQUESTS": "10000",
    "KB_HTTP_MAX_REQUESTS_OF_ORGANIZATION": "10000",
}
