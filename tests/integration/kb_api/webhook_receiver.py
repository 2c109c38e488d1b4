"""A receiver of webhooks, and the delivery of what waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kb_api.bootstrap import KbApi
from kb_api.webhooks import deliveries
from kb_api.webhooks.deliver import WebhookDeliverer
from kb_client.webhooks import verify
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_events import list_all


@dataclass
class Receiver:
    """A server that keeps what it gets, and answers with `statuses`, the last of them from then on."""

    statuses: list[int] = field(default_factory=lambda: [204])
    headers: str = ""
    is_silent: bool = False
    answers: asyncio.Event | None = None
    """Set when it answers; None: it always does."""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["Receiver"]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        try:
            yield self
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.received.append((headers, body))
            if self.is_silent:
                await asyncio.sleep(3600)
            if self.answers is not None:
                await self.answers.wait()
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n{self.headers}\r\n".encode()
            )
        finally:
            writer.close()

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.received]

    def documents(self, secret: str) -> list[str]:
        """Return the documents of the events received, after checking the signature of each."""
        return [verify(body, headers, secrets=[secret])["data"]["document_id"] for headers, body in self.received]


async def deliver_all(api: KbApi, deliverer: WebhookDeliverer | None = None) -> None:
    """List all events, and make all attempts that are due."""
    deliverer = deliverer or api.webhook_deliverer
    await list_all(api)
    while await deliverer._serve_some():
        await asyncio.gather(*deliverer._serving.values())


async def deliveries_of(owner: OrganizationClient, webhook: dict[str, Any], **query: Any) -> list[dict[str, Any]]:
    page = await owner.ok("GET", f"/webhooks/{webhook['webhook_id']}/deliveries", limit=100, **query)
    found: list[dict[str, Any]] = page["deliveries"]
    return found


async def make_due(owner: OrganizationClient, **fields: Any) -> None:
    """Let the time pass until all deliveries that wait are due."""
    waiting = {"organization_id": owner.organization_id, "waiting": {"$exists": True}}
    past = datetime.now(UTC) - timedelta(seconds=1)
    await owner.database[deliveries.NAME].update_many(waiting, {"$set": {"due_at": past, **fields}})


def another_process(owner: OrganizationClient) -> WebhookDeliverer:
    api = owner.api
    return WebhookDeliverer(api.database, sender=api.webhook_sender, secrets=api.webhook_secrets)
