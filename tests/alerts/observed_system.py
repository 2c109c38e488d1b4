"""A whole system under load, with Prometheus and Alertmanager beside it, and what they say."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final

import httpx
import psutil

from kb_local.monitoring import MonitoringOptions
from kb_local.ports import NO_TLS
from kb_local.stack import Stack
from kb_local.state import ProcessState
from kb_local.supervisor import Supervisor
from tests.alerts.limited_provider import LimitedProvider
from tests.alerts.notifications import NotificationLog
from tests.alerts.short_windows import INTERVAL_S, write_short_windows
from tests.chaos.workload import UPLOADED, paragraph
from tests.e2e.system import QUICK, SystemUnderTest, system
from tests.integration.http.serving import serving
from tests.waiting import until

SETTINGS: Final = {
    **QUICK,
    "KB_JOB_LEASE_S": "10",
    "KB_KAFKA_SESSION_TIMEOUT_MS": "6000",
    "KB_EMBEDDING_TIMEOUT_S": "2",
    "KB_SEARCH_PATIENCE_S": "0.3",
    "KB_SEARCH_VECTOR_WAIT_S": "0.3",
    "KB_RECONCILE_INTERVAL_S": "1",
    "KB_RECONCILE_FULL_INTERVAL_S": "5",
    "KB_RECONCILE_GRACE_S": "5",
}
"""Settings under which the system notices and forgets a fault soon."""
SEARCH_EVERY_S: Final = 0.5
DOCUMENT_EVERY_S: Final = 2.0
HISTORY_S: Final = 180.0
"""The shortened six hours of a burn rate. Of a younger system, few slow searches are a large share."""
_WITHIN_S: Final = 10.0
"""A request of the load that takes longer is given up."""


@dataclass(slots=True)
class ObservedSystem:
    system: SystemUnderTest
    provider: LimitedProvider
    notifications: NotificationLog
    kb_id: str = ""
    """Knowledge base of the load."""
    kb_id_of_fault: str | None = None
    _loaded_since: float = field(default_factory=monotonic)
    _numbers: count = field(default_factory=count)  # type: ignore[type-arg]  # generic in its stubs only

    @property
    def stack(self) -> Stack:
        return self.system.stack

    @property
    def variables(self) -> dict[str, str]:
        """Return what the commands of a runbook use."""
        return {
            "KB_API": self.stack.base_url,
            "KB_SEARCH": self.stack.base_url,
            "ORG": self.stack.organization_id,
            "KEY": self.stack.api_key,
            "KB_ID": self.kb_id_of_fault or self.kb_id,
            "KB_HOME": str(self.stack.home.folder),
        }

    @contextlib.contextmanager
    def runbooks_are_about(self, kb_id: str) -> Iterator[None]:
        """Have the commands of runbooks name this knowledge base instead of that of the load."""
        self.kb_id_of_fault = kb_id
        yield
        self.kb_id_of_fault = None

    def process(self, name: str) -> psutil.Process:
        """Return the process of a server or service that runs now."""
        state: ProcessState = next(each for each in self.stack.home.read_state().processes if each.name == name)
        return psutil.Process(state.pid)

    async def wait_for_history(self) -> None:
        """Wait until the load has gone on for as long as the longest window of a burn rate."""
        await asyncio.sleep(max(0.0, self._loaded_since + HISTORY_S - monotonic()))

    async def put_document(self, document_id: str, tag_id: str) -> None:
        body = {
            "document_name": document_id,
            "tag_ids": [tag_id],
            "upload_date": UPLOADED.isoformat(),
            "text": paragraph(document_id),
        }
        (await self.system.http.put(f"/documents/{document_id}", json=body)).raise_for_status()

    async def knows_documents(self, tag_id: str, number: int) -> bool:
        """Say whether so many documents with this tag are stored."""
        return await self.system.database["documents"].count_documents({"tag_ids": tag_id}) >= number

    async def create_knowledge_base(self, tag_id: str, *, documents: int) -> str:
        """Create a KB of a new tag, and wait until it has so many documents."""
        await self.system.create_tags(tag_id)
        kb_id = await self.system.create_knowledge_base(tag_id)
        await self.system.until_active(kb_id)
        for number in range(documents):
            await self.put_document(f"{tag_id}-{number}", tag_id)

        async def has_all() -> bool:
            answer = await self.system.http.get(f"/knowledge-bases/{kb_id}")
            return bool(answer.raise_for_status().json()["document_count"] >= documents)

        await until(has_all, what=f"{documents} documents in {kb_id}")
        return kb_id

    async def unmuted_alerts(self) -> set[str]:
        """Return the names of alerts that fire and are not muted by others."""
        assert self.stack.monitoring is not None
        async with httpx.AsyncClient(trust_env=False, verify=NO_TLS) as client:
            answer = await client.get(
                f"{self.stack.monitoring.alertmanager.url}/api/v2/alerts",
                params={"active": "true", "inhibited": "false", "silenced": "false"},
            )
        return {alert["labels"]["alertname"] for alert in answer.raise_for_status().json()}

    async def load(self) -> None:
        """Search and send documents at a steady rate until cancelled, whatever the answers are."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(SEARCH_EVERY_S, self._search))
            group.create_task(self._repeat(DOCUMENT_EVERY_S, self._add_document))

    async def _repeat(self, every_s: float, request: Any) -> None:
        """Begin a request every so often, also while others wait for their answers."""
        async with asyncio.TaskGroup() as waiting:
            while True:
                waiting.create_task(self._try(request))
                await asyncio.sleep(every_s)

    async def _try(self, request: Any) -> None:
        with contextlib.suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(_WITHIN_S):
                await request(next(self._numbers))

    async def _search(self, number: int) -> None:
        # One in eight is new, so that its vector is in no cache.
        query = f"river {number if number % 8 == 0 else number % 8}"
        await self.system.http.post(f"/knowledge-bases/{self.kb_id}/search", json={"query": query})

    async def _add_document(self, number: int) -> None:
        await self.put_document(f"load-{number}", "load")


@asynccontextmanager
async def observed_system(folder: Path) -> AsyncIterator[ObservedSystem]:
    """Start everything as `kb up --observe` does, with the faster rules."""
    notifications, stacks = NotificationLog(), list[Stack]()
    provider = LimitedProvider(lambda: stacks[0].models_api_base)
    async with serving(notifications.app) as webhook_url, serving(provider.app) as provider_url:
        stack = Stack(
            folder / ".kb",
            env={**SETTINGS, "KB_LOCAL_MODELS_API_BASE": f"{provider_url}/v1"},
            monitoring=MonitoringOptions(
                configs=write_short_windows(folder / "observability"),
                interval_s=INTERVAL_S,
                webhook_url=f"{webhook_url}/",
            ),
        )
        stacks.append(stack)
        async with _supervised(stack), system(stack, http_timeout_s=20) as opened:
            observed = ObservedSystem(opened, provider, notifications)
            observed.kb_id = await observed.create_knowledge_base("load", documents=5)
            loading = asyncio.create_task(observed.load())
            yield observed
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)


@asynccontextmanager
async def _supervised(stack: Stack) -> AsyncIterator[None]:
    stack.home.prepare()
    stop = asyncio.Event()
    with stack.home.locked():
        supervising = asyncio.create_task(Supervisor(stack, on_change=stack.home.write_state).run(stop))
        try:
            await until(
                lambda: supervising.done() or stack.home.read_state().phase == "ready",
                what="the stack is ready",
                progress=lambda: stack.home.read_state().model_dump_json(),
            )
            if supervising.done():
                await supervising
            yield
        finally:
            stop.set()
            await supervising
