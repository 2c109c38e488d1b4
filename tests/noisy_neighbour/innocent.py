"""What an innocent organization does all the time, and how it is served."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import quantiles
from time import perf_counter
from uuid import uuid4

import httpx

from tests.chaos.workload import paragraph
from tests.noisy_neighbour.neighbourhood import Organization
from tests.waiting import until

SEARCH_PAUSE_S = 0.05
PUBLISH_PAUSE_S = 0.5


@dataclass(slots=True)
class Experience:
    """How one organization was served for some time."""

    search_s: list[float] = field(default_factory=list)
    publish_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    document_ids: list[str] = field(default_factory=list)
    """Of the documents whose publication was acknowledged."""

    @property
    def search_p95_s(self) -> float:
        return quantiles(self.search_s, n=20)[-1]

    @property
    def publish_p95_s(self) -> float:
        return quantiles(self.publish_s, n=20)[-1]


class Innocent:
    """Searches and publishes; one document at a time, and one search."""

    def __init__(self, organization: Organization, kb_id: str, tag_id: str) -> None:
        self._organization = organization
        self._kb_id = kb_id
        self.tag_id = tag_id

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Experience]:
        """Work until the block ends; requests that have begun by then are waited for."""
        experience, stop = Experience(), asyncio.Event()
        async with asyncio.TaskGroup() as work:
            work.create_task(self._search(experience, stop))
            work.create_task(self._publish(experience, stop))
            try:
                yield experience
            finally:
                stop.set()

    async def until_searchable(self, document_ids: list[str]) -> None:
        """Wait until each of these documents is found by a search for it."""
        async with self._organization.kb_search() as http:
            for document_id in document_ids:
                await until(partial(self._finds, http, document_id), what=f"{document_id} in search", every_s=0.1)

    async def _finds(self, http: httpx.AsyncClient, document_id: str) -> bool:
        body = {"query": "anything", "document_ids": [document_id], "top_k": 1}
        answer = await http.post(f"/knowledge-bases/{self._kb_id}/search", json=body)
        return bool(answer.raise_for_status().json()["results"])

    async def _search(self, experience: Experience, stop: asyncio.Event) -> None:
        async with self._organization.kb_search() as http:
            while not stop.is_set():
                # A question that nobody has asked before: its vector has to be computed.
                body = {"query": uuid4().hex}
                begun = perf_counter()
                if await _succeeds(experience, http, "POST", f"/knowledge-bases/{self._kb_id}/search", body):
                    experience.search_s.append(perf_counter() - begun)
                await _pause(stop, SEARCH_PAUSE_S)

    async def _publish(self, experience: Experience, stop: asyncio.Event) -> None:
        async with self._organization.kb_api() as http:
            while not stop.is_set():
                document_id = f"innocent-{uuid4().hex[:12]}"
                body = {
                    "document_name": document_id,
                    "tag_ids": [self.tag_id],
                    "upload_date": "2026-01-31T12:00:00Z",
                    "text": paragraph(document_id),
                }
                begun = perf_counter()
                if await _succeeds(experience, http, "PUT", f"/documents/{document_id}", body):
                    experience.publish_s.append(perf_counter() - begun)
                    experience.document_ids.append(document_id)
                await _pause(stop, PUBLISH_PAUSE_S)


async def _succeeds(
    experience: Experience, http: httpx.AsyncClient, method: str, path: str, body: Mapping[str, object]
) -> bool:
    try:
        answer = await http.request(method, path, json=body)
    except httpx.HTTPError as error:
        experience.failures.append(f"{method} {path}: {error!r}")
        return False
    if not answer.is_success:
        experience.failures.append(f"{method} {path}: {answer.status_code} {answer.text}")
    return answer.is_success


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
