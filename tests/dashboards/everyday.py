"""What users and upstreams do all day: documents that change, searches, runs of chat models, events, webhooks."""

import asyncio
import contextlib
from collections.abc import Awaitable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from uuid import uuid4

import httpx

from kb_client.events import PublishingFailed
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.system import SystemUnderTest
from tests.integration.kb_api.webhook_receiver import Receiver
from tests.noisy_neighbour.neighbourhood import NeighbourClient

PAUSE_S: Final = 0.2
AT_ONCE: Final = 12
"""Requests of one organization at the same time: more than a service works on while the other one calls, too."""


@dataclass(frozen=True, slots=True)
class Everyday:
    """Work that goes on until it is cancelled, whatever fails meanwhile."""

    system: SystemUnderTest
    upstream: Upstream
    kb_id: str
    tag_id: str
    other_organization: NeighbourClient
    other_kb_id: str

    async def go_on(self) -> None:
        async with asyncio.TaskGroup() as group:
            for work in (
                self._change_documents(),
                self._search(),
                self._run(),
                self._be_two_organizations(),
                self._follow_events(),
                self._receive_webhooks(),
            ):
                group.create_task(work)

    async def _change_documents(self) -> None:
        for number in count():
            document_id, texts = f"day-{number}", [paragraph(f"{number} {part}") for part in range(3)]
            events = [self.upstream.ocr(document_id, texts, tags=[self.tag_id])]
            if number % 3 == 0:
                events.append(self.upstream.ocr(document_id, [*texts, texts[0]], tags=[self.tag_id], revision=2))
            with contextlib.suppress(PublishingFailed):
                await self.system.events.publish_all(events)
                if number % 4 == 0:
                    await self.system.events.publish_all([self.upstream.tagged(document_id, revision=3)])
                if number % 5 == 0:
                    await self.system.events.publish_all([self.upstream.deleted(document_id, revision=4)])
            await asyncio.sleep(PAUSE_S)

    async def _search(self) -> None:
        path = f"/knowledge-bases/{self.kb_id}/search"
        for number in count():
            for mode in ("hybrid", "text"):
                await self._post(path, query=f"river {number % 20}", mode=mode)
            await self._post(path, query=f"river {number}", mode="vector")
            await self._post(path, query="river", metadata_filter={"$where": "true"})
            await self._post(path, query="river", tag_ids=["no-document-has-it"])
            await self._post(path, query="river", key="kb_000000000000_0")
            renamed = {"name": f"Everyday {number}"}
            await asyncio.gather(
                *(self._post(path, query=f"forest {number} {each}") for each in range(4)),
                quietly(self.system.http.put(f"/knowledge-bases/{self.kb_id}", json=renamed)),
            )
            await asyncio.sleep(PAUSE_S)

    async def _post(self, path: str, *, key: str | None = None, **body: Any) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        await quietly(self.system.http.post(path, json=body, headers=headers))

    async def _run(self) -> None:
        for number in count():
            question = {"role": "user", "content": f"What is near river {number}?"}
            await quietly(self.system.http.post("/runs", json={"messages": [question], "kb_ids": [self.kb_id]}))
            await asyncio.sleep(PAUSE_S)

    async def _be_two_organizations(self) -> None:
        """Send more at once than one organization may while another one calls."""
        path = f"/knowledge-bases/{self.other_kb_id}/search"
        async with self.other_organization.kb_search(timeout_s=30) as other:
            while True:
                body = {"query": f"bridge {uuid4().hex}", "mode": "text"}
                await asyncio.gather(*(quietly(other.post(path, json=body)) for _ in range(AT_ONCE)))
                await asyncio.sleep(PAUSE_S)

    async def _follow_events(self) -> None:
        while True:
            headers = {"Accept": "text/event-stream"}
            with contextlib.suppress(httpx.HTTPError):
                async with self.system.http.stream("GET", "/events", headers=headers, timeout=None) as answer:
                    async for _ in answer.aiter_lines():
                        pass
            await asyncio.sleep(PAUSE_S)

    async def _receive_webhooks(self) -> None:
        """Receive events at one address; another one is gone, and what is sent there is given up again and again."""
        async with Receiver().serve() as receiver, Receiver(statuses=[410]).serve() as gone:
            (await self.system.http.post("/webhooks", json={"url": receiver.url})).raise_for_status()
            created = (await self.system.http.post("/webhooks", json={"url": gone.url})).raise_for_status().json()
            while True:
                await quietly(self.system.http.put(f"/webhooks/{created['webhook_id']}", json={"enabled": True}))
                await asyncio.sleep(2)


async def quietly(request: Awaitable[httpx.Response]) -> httpx.Response | None:
    """Wait for the answer to a request that may fail."""
    with contextlib.suppress(httpx.HTTPError):
        return await request
    return None
