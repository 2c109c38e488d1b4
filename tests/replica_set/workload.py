"""What upstreams and searchers do all the time, whatever becomes of MongoDB, and what they see of it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Any, Final

import httpx
from pymongo import DESCENDING
from pymongo.errors import PyMongoError

from kb_contracts.documents import DocumentEvent
from kb_local.replica_set import ReplicaSet
from tests.chaos.availability import AvailabilityRecorder
from tests.chaos.oracle import Oracle
from tests.chaos.quiescence import until_quiescent
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.system import SystemUnderTest

WRITERS: Final = 3
BETWEEN_WRITES_S: Final = 0.1
BETWEEN_LOOKS_S: Final = 0.1
EXPECTED: Final = {"search": (200, 503), "write": (202, 503)}


@dataclass(slots=True)
class Workload:
    """Puts, retags and deletes documents over HTTP, each until it is accepted, and searches."""

    system: SystemUnderTest
    members: ReplicaSet
    kb_id: str
    upstream: Upstream
    oracle: Oracle
    availability: AvailabilityRecorder = field(default_factory=AvailabilityRecorder)
    wrong: list[str] = field(default_factory=list)
    """Responses that callers must not get."""
    slowest_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    writes: int = 0
    searches: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Go on until left; what was begun is finished then."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write_until(stop))
            group.create_task(self._search_until(stop))
            group.create_task(self._watch_indexing(stop))
            group.create_task(self._watch_primary(stop))
            try:
                yield
            finally:
                stop.set()

    async def verdict(self) -> list[str]:
        """Return the problems once no work is open any more."""
        await until_quiescent(self.system)
        return [*self.wrong, *(f"{each.document_id} {each.what}" for each in await self.oracle.check(self.system))]

    def lines(self) -> list[str]:
        slowest = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in sorted(self.slowest_s.items()))
        return [*self.availability.summary().lines(), f"slowest answers: {slowest}"]

    async def _write_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            number = next(self._numbers)
            for event, method, path, body in self._changes(f"w{self.upstream_name}-{number}", number):
                await self._until_accepted(method, path, body)
                self.oracle.record_published(event)
                await asyncio.sleep(BETWEEN_WRITES_S)

    @property
    def upstream_name(self) -> str:
        """Return the prefix of the ids of this workload's documents."""
        return self.kb_id[-6:]

    def _changes(self, document_id: str, number: int) -> list[tuple[DocumentEvent, str, str, dict[str, Any] | None]]:
        """A document that comes; every second gets other tags, and every third is deleted then."""
        path = f"/documents/{document_id}"
        tags = sorted(self.oracle.knowledge_bases[self.kb_id])
        ocr = self.upstream.ocr(document_id, [paragraph(f"{document_id} {n}") for n in range(3)], tags=tags)
        put = ocr.model_dump(mode="json", include={"document_name", "tag_ids", "upload_date", "text", "revision"})
        changes: list[tuple[DocumentEvent, str, str, dict[str, Any] | None]] = [(ocr, "PUT", path, put)]
        if number % 2:
            retagged = self.upstream.tagged(document_id, *tags[:1], revision=2)
            changes.append((retagged, "PATCH", f"{path}/tags", {"tag_ids": tags[:1], "revision": 2}))
        if not number % 3:
            deleted = self.upstream.deleted(document_id, revision=3)
            changes.append((deleted, "DELETE", f"{path}?revision=3", None))
        return changes

    async def _until_accepted(self, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        """The same request again is harmless: it names its revision."""
        while not await self._ask("write", method, path, body):  # noqa: ASYNC110  # a caller that comes again
            await asyncio.sleep(BETWEEN_WRITES_S)
        self.writes += 1

    async def _search_until(self, stop: asyncio.Event) -> None:
        body = {"query": "river mountain garden", "top_k": 10}
        while not stop.is_set():
            self.searches += await self._ask("search", "POST", f"/knowledge-bases/{self.kb_id}/search", body)
            await asyncio.sleep(BETWEEN_LOOKS_S)

    async def _ask(self, what: str, method: str, path: str, body: Mapping[str, Any] | None) -> bool:
        began = monotonic()
        try:
            answer = await self.system.http.request(method, path, json=body)
        except httpx.TransportError as error:
            self.availability.record(what, type(error).__name__, success=False)
            self.wrong.append(f"a {what} was not answered: {error!r}")
            return False
        finally:
            self.slowest_s[what] = max(self.slowest_s[what], monotonic() - began)
        self.availability.record(what, answer.status_code, success=answer.is_success)
        if answer.status_code not in EXPECTED[what]:
            self.wrong.append(f"a {what} was answered with {answer.status_code}: {answer.text[:300]}")
        return answer.is_success

    async def _watch_indexing(self, stop: asyncio.Event) -> None:
        """Note whenever something has been indexed."""
        newest: Any = None
        rows = self.system.database.document_index
        while not stop.is_set():
            try:
                row = await rows.find_one({"kb_id": self.kb_id}, {"indexed_at": 1}, sort=[("indexed_at", DESCENDING)])
            except PyMongoError:
                row = None
            now = None if row is None else row["indexed_at"]
            self.availability.record_progress("indexing", success=now is not None and now != newest)
            newest = now or newest
            await asyncio.sleep(BETWEEN_LOOKS_S)

    async def _watch_primary(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.availability.record_progress("primary", success=await self.members.find_primary() is not None)
            await asyncio.sleep(BETWEEN_LOOKS_S)
