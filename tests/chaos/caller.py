"""Calls a system as an upstream and as a user do, and retries where a response asks for it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import httpx
from aiokafka.errors import KafkaError

from kb_contracts import topics
from kb_contracts.documents import DocumentEvent
from tests.chaos.availability import AvailabilityRecorder
from tests.chaos.quiescence import SLOW_S
from tests.e2e.system import SystemUnderTest, new_knowledge_base

RETRY_PAUSE_S: Final = 0.2
REFUSED_FOR_NOW: Final = (409, 503)


@dataclass(slots=True)
class RecordingCaller:
    """Records all responses in `availability`, and in `violations` those that must not occur."""

    system: SystemUnderTest
    availability: AvailabilityRecorder
    retries: bool
    """True where Kafka and MongoDB may be away: then events are sent in the background until they are acknowledged, and
    HTTP requests are sent again until they are answered. Else whatever fails is raised."""
    violations: list[str] = field(default_factory=list)
    _sending: set[asyncio.Task[None]] = field(default_factory=set)

    async def publish(self, event: DocumentEvent) -> None:
        """Send an event to Kafka; with `retries` it returns at once, see `wait_until_acknowledged`."""
        await self._send("publish", lambda: self.system.events.publish(event))

    async def send_malformed(self, document_id: str, malformed: bytes) -> None:
        """Send a record that can't be decoded, with the key of a document."""
        key = f"{self.system.organization_id}/{document_id}".encode()
        await self._send("send malformed", lambda: self.system.kafka.send(topics.DOCUMENT_EVENTS, key, malformed))

    async def wait_until_acknowledged(self) -> None:
        """Wait until everything that was sent is acknowledged."""
        async with asyncio.timeout(SLOW_S):
            await asyncio.gather(*self._sending)

    async def create_knowledge_base(self, *tag_ids: str) -> str:
        """Return the id of a new KB, which is made once however often it has to be asked for."""
        name = f"KB of {', '.join(tag_ids)}, {uuid4().hex[:12]}"
        body = new_knowledge_base(*tag_ids, name=name)
        async with asyncio.timeout(SLOW_S):
            while (answer := await self.ask_once("POST", "/knowledge-bases", body)) is None:
                # Refused does not mean that it was not made.
                if (kb_id := await self._find_knowledge_base(name)) is not None:
                    return kb_id
        assert answer.status_code == 201, answer.text
        return str(answer.json()["kb_id"])

    async def change(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Do what can be done twice without harm, such as a PUT or a DELETE, until it is done."""
        async with asyncio.timeout(SLOW_S):
            asked = 1
            while (answer := await self.ask_once(method, path, body)) is None:
                asked += 1
        # What was deleted by a request that was then refused is not there any more.
        done = answer.status_code == 404 if method == "DELETE" and asked > 1 else False
        assert done or answer.is_success, answer.text

    async def write_entry(self, entry_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Change an entry, or create it if there is none; return it as it then is."""
        async with asyncio.timeout(SLOW_S):
            while (answer := await self._write_entry_once(entry_id, fields)) is None:
                pass
        assert answer.is_success, answer.text
        written: dict[str, Any] = answer.json()
        return written

    async def _write_entry_once(self, entry_id: str, fields: Mapping[str, Any]) -> httpx.Response | None:
        answer = await self.ask_once("PATCH", f"/knowledge-entries/{entry_id}", fields)
        if answer is None or answer.status_code != 404:
            return answer
        # Refused does not mean that it was not made: then the next change finds it.
        return await self.ask_once("POST", "/knowledge-entries", {"entry_id": entry_id, **fields})

    async def _find_knowledge_base(self, name: str) -> str | None:
        while (answer := await self.ask_once("GET", f"/knowledge-bases?limit=100&name_search={name}", None)) is None:
            pass
        found = answer.raise_for_status().json()["knowledge_bases"]
        return str(found[0]["kb_id"]) if found else None

    async def ask_once(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response | None:
        """Return the answer; None, after a short pause, if it has to be asked again."""
        try:
            answer = await self.system.http.request(method, path, json=body)
        except httpx.TransportError as error:
            if not self.retries:
                raise
            self.availability.record("change", type(error).__name__, success=False)
            self.violations.append(f"{method} was not answered: {error!r}")
            await asyncio.sleep(RETRY_PAUSE_S)
            return None
        self.availability.record("change", answer.status_code, success=answer.is_success)
        if answer.status_code not in REFUSED_FOR_NOW:
            if not (self.retries and answer.is_server_error):
                return answer
            self.violations.append(f"{method} was answered with {answer.status_code}: {answer.text[:500]}")
        await asyncio.sleep(RETRY_PAUSE_S)
        return None

    async def _send(self, what: str, once: Callable[[], Awaitable[None]]) -> None:
        if not self.retries:
            await once()
            return
        task = asyncio.create_task(self._retry_until_acknowledged(what, once))
        self._sending.add(task)

    async def _retry_until_acknowledged(self, what: str, once: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await once()
            except KafkaError as error:
                self.availability.record(what, type(error).__name__, success=False)
                await asyncio.sleep(RETRY_PAUSE_S)
            else:
                self.availability.record(what, "acknowledged", success=True)
                return
