"""Requests and events of callers while replicas are replaced; whatever is not answered as it should be is a failure."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

import httpx
from aiokafka.errors import KafkaError

from kb_contracts.documents import DocumentEvent
from tests.chaos.document_reader import DocumentReader
from tests.chaos.oracle import Oracle
from tests.chaos.quiescence import SLOW_S
from tests.e2e.system import SystemUnderTest
from tests.rolling_update.call_record import CallRecord
from tests.rolling_update.document_changes import TAGS, ChangingDocument, DocumentChanges, to_request
from tests.rolling_update.open_loop import call_at_random

RATES: Final[Mapping[str, float]] = {
    "search": 2.0,
    "search on a kept connection": 1.0,
    "read the watched document": 0.5,
    "revise the watched document": 0.1,
    "get a document": 0.7,
    "change a document": 0.8,
    "publish an event": 0.8,
    "run a chat model": 0.1,
}
"""Calls in a second, on average."""
LOOK_EVERY_S: Final = 0.5
MAX_LOOKED_FOR: Final = 20
MODES: Final = ("vector", "text", "hybrid")
MANY_WORDS: Final = "river mountain garden window letter winter music bridge forest market doctor engine silver shadow"
"""Half of the words of all texts: a search in the text index finds each text by some of them."""


@dataclass(slots=True)
class UpdateTraffic:
    system: SystemUnderTest
    """Sends its requests through the Ingress."""
    kept: httpx.AsyncClient
    """Sends its requests through the Service of kb-search, on few connections."""
    kb_id: str
    chat_model: str
    oracle: Oracle
    changes: DocumentChanges
    reader: DocumentReader
    dice: random.Random
    record: CallRecord = field(default_factory=CallRecord)
    searchable_s: dict[str, list[float]] = field(default_factory=dict)
    """By phase, the time from each new text to the first search that finds it."""
    _sent_at: dict[str, float] = field(default_factory=dict)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Call during the block; at its end, wait until each call has ended and each text was found."""
        stop, has_ended = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(call_at_random(RATES[kind], call, stop=stop, dice=self.dice))
                for kind, call in self._calls().items()
            ]
            group.create_task(self._look_until(has_ended))
            try:
                yield
            finally:
                stop.set()
                await asyncio.wait(calls)
                has_ended.set()

    def _calls(self) -> Mapping[str, Callable[[float], Awaitable[None]]]:
        return {
            "search": self._search,
            "search on a kept connection": self._search_on_kept_connection,
            "read the watched document": self._read_watched,
            "revise the watched document": self._revise_watched,
            "get a document": self._get,
            "change a document": self._change,
            "publish an event": self._publish,
            "run a chat model": self._run,
        }

    async def _search(self, due: float) -> None:
        await self._search_for_one(self.system.http, "search", due)

    async def _search_on_kept_connection(self, due: float) -> None:
        await self._search_for_one(self.kept, "search on a kept connection", due)

    async def _search_for_one(self, http: httpx.AsyncClient, kind: str, due: float) -> None:
        """Search for a document that was found before: it must be found again, unless it was deleted meanwhile."""
        if (document := self._choose_settled()) is None:
            return
        mode, text = self.dice.choice(MODES), document.text
        body = {"query": text, "mode": mode, "top_k": 5, "document_ids": [document.document_id]}

        def check(answer: httpx.Response) -> str | None:
            is_there = document.document_id in self.changes.documents and document.text == text
            return (
                f"{document.document_id} was not found by {mode}" if is_there and not answer.json()["results"] else None
            )

        await self._ask(kind, http, "POST", self._search_path, body=body, due=due, check=check)

    async def _read_watched(self, due: float) -> None:
        before = len(self.reader.violations)
        try:
            shown = await self.reader.try_to_read()
        except httpx.HTTPError as error:
            self.record.record("read the watched document", type(error).__name__, due=due, failure=repr(error))
            return
        wrong = self.reader.violations[before:]
        failure = "; ".join(wrong) or ("503" if shown is None else None)
        self.record.record("read the watched document", "503" if shown is None else 200, due=due, failure=failure)

    async def _revise_watched(self, due: float) -> None:
        self.reader.revisions.step()
        published = self.reader.revisions.published
        event = self.changes.upstream.ocr(self.reader.document_id, published[-1], tags=TAGS, revision=len(published))
        self.oracle.record_published(event)
        await self._send_event(event, due)

    async def _get(self, due: float) -> None:
        if (document := self._choose_settled()) is not None:
            await self._ask("get a document", self.system.http, "GET", f"/documents/{document.document_id}", due=due)

    async def _change(self, due: float) -> None:
        event = self.changes.next_event()
        request = to_request(event)
        self.oracle.record_published(event)
        http, kind = self.system.http, "change a document"
        if await self._ask(kind, http, request.method, request.path, body=request.body, due=due, wanted=202):
            self._expect(event.document_id, due)

    async def _publish(self, due: float) -> None:
        event = self.changes.next_event()
        self.oracle.record_published(event)
        if await self._send_event(event, due):
            self._expect(event.document_id, due)

    async def _run(self, due: float) -> None:
        question = [{"role": "user", "content": "What is there?"}]
        body = {"messages": question, "kb_ids": [self.kb_id], "model": self.chat_model}

        def check(answer: httpx.Response) -> str | None:
            status = answer.json()["status"]
            return None if status == "completed" else f"the run is {status}"

        await self._ask("run a chat model", self.system.http, "POST", "/runs", body=body, due=due, check=check)

    async def _send_event(self, event: DocumentEvent, due: float) -> bool:
        """Publish an event and record the result; return whether it was acknowledged."""
        try:
            await self.system.events.publish(event)
        except KafkaError as error:
            self.record.record("publish an event", type(error).__name__, due=due, failure=repr(error))
            return False
        self.record.record("publish an event", "acknowledged", due=due)
        return True

    async def _ask(
        self,
        kind: str,
        http: httpx.AsyncClient,
        method: str,
        path: str,
        *,
        due: float,
        body: Mapping[str, Any] | None = None,
        wanted: int = 200,
        check: Callable[[httpx.Response], str | None] = lambda _: None,
    ) -> bool:
        """Send a request once and record its result; return whether it was answered as wanted."""
        try:
            answer = await http.request(method, path, json=body)
        except httpx.HTTPError as error:
            self.record.record(kind, type(error).__name__, due=due, failure=repr(error))
            return False
        failure = check(answer) if answer.status_code == wanted else f"{answer.status_code} {answer.text[:300]}"
        self.record.record(kind, answer.status_code, due=due, failure=failure)
        return failure is None

    def _choose_settled(self) -> ChangingDocument | None:
        settled = self.changes.settled()
        return self.dice.choice(settled) if settled else None

    @property
    def _search_path(self) -> str:
        return f"/knowledge-bases/{self.kb_id}/search"

    def _expect(self, document_id: str, due: float) -> None:
        """Have the newest text of a document looked for, if it was not found yet."""
        document = self.changes.documents.get(document_id)
        if document is not None and not document.is_found:
            self._sent_at.setdefault(document_id, due)

    async def _look_until(self, has_ended: asyncio.Event) -> None:
        """Look for all new texts together, again and again; what is not found for long is a failure."""
        looked_since = monotonic()
        while self._sent_at or not has_ended.is_set():
            waiting = len(self._sent_at)
            if waiting:
                await self._look()
            if len(self._sent_at) != waiting or not waiting:
                looked_since = monotonic()
            elif has_ended.is_set() and monotonic() - looked_since > SLOW_S:
                for document_id, due in self._sent_at.items():
                    failure = f"the newest text of {document_id} was never found"
                    self.record.record("look for new texts", "never found", due=due, failure=failure)
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        """Search in both indexes: either may be behind the other."""
        looked_for = list(self._sent_at)[:MAX_LOOKED_FOR]
        found = await self._newest_found(looked_for, "vector")
        if found:
            found &= await self._newest_found(looked_for, "text")
        for document_id in found:
            self.changes.documents[document_id].is_found = True
            took_s = monotonic() - self._sent_at.pop(document_id)
            self.searchable_s.setdefault(self.record.phase, []).append(took_s)

    async def _newest_found(self, document_ids: Sequence[str], mode: str) -> set[str]:
        """Return the documents whose newest text is found."""
        body = {"query": MANY_WORDS, "mode": mode, "top_k": MAX_LOOKED_FOR, "document_ids": document_ids}
        found: set[str] = set()

        def check(answer: httpx.Response) -> str | None:
            hits = answer.json()["results"]
            found.update(
                hit["document_id"] for hit in hits if self.changes.documents[hit["document_id"]].text in hit["content"]
            )
            return None

        path, due = self._search_path, monotonic()
        await self._ask("look for new texts", self.system.http, "POST", path, body=body, due=due, check=check)
        return found
