"""HTTP calls of the demo, as any client would make them."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

import httpx

from kb_local.errors import LocalStackError
from kb_local.progress_deadline import ProgressDeadline

NO_PROGRESS_TIMEOUT_S: Final = 180.0
"""Time that the demo waits without progress: a busy machine may take as long as it needs."""


class DemoFailed(LocalStackError):
    """The system did not do what the demo shows."""


class Api:
    """One organization's view of the system."""

    def __init__(self, base_url: str, organization_id: str, *, api_key: str, logs: Path) -> None:
        self._logs = logs
        self._http = httpx.AsyncClient(
            base_url=f"{base_url}/v0/orgs/{organization_id}",
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=NO_PROGRESS_TIMEOUT_S,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def create_tags(self, tag_ids: Iterable[str]) -> None:
        for tag_id in tag_ids:
            await self._send_request("POST", "/tags", body={"tag_id": tag_id, "name": tag_id})

    async def create_knowledge_base(self, name: str, description: str, *, tag_ids: Iterable[str]) -> str:
        created = await self._send_request(
            "POST", "/knowledge-bases", body={"name": name, "description": description, "tag_ids": list(tag_ids)}
        )
        return str(created["kb_id"])

    async def knowledge_base(self, kb_id: str) -> dict[str, Any]:
        return await self._send_request("GET", f"/knowledge-bases/{kb_id}")

    async def failed_documents(self, kb_id: str) -> int:
        failed = await self._send_request("GET", f"/knowledge-bases/{kb_id}/documents?status=failed&limit=1")
        return int(failed["total_count"])

    async def search(self, kb_id: str, query: str, **options: Any) -> dict[str, Any]:
        return await self._send_request("POST", f"/knowledge-bases/{kb_id}/search", body={"query": query, **options})

    async def create_agent(self, name: str, *, kb_id: str) -> str:
        """Create an agent with one tool, which searches the knowledge base; all its settings are the defaults."""
        created = await self._send_request("POST", "/agents", body={"name": name})
        await self._send_request("POST", f"/agents/{created['agent_id']}/knowledge-base-tools", body={"kb_id": kb_id})
        return str(created["agent_id"])

    async def run(self, agent_id: str, question: str) -> dict[str, Any]:
        """Let an agent answer; it uses the chat model of this stack."""
        return await self._send_request(
            "POST", "/runs", body={"messages": [{"role": "user", "content": question}], "agent_id": agent_id}
        )

    async def wait_until_active(self, kb_id: str) -> None:
        deadline = ProgressDeadline(NO_PROGRESS_TIMEOUT_S)
        while (kb := await self.knowledge_base(kb_id))["status"] != "active":
            deadline.record(kb["status"])
            if kb["status"] == "error" or deadline.is_over:
                reason = kb["status_reason"] or f"no change for {NO_PROGRESS_TIMEOUT_S:.0f} s"
                raise DemoFailed(f"{kb['name']!r} is {kb['status']}: {reason}", remedy=f"read the logs in {self._logs}")
            await asyncio.sleep(0.1)

    async def wait_for_document(self, kb_id: str, query: str, *, document_id: str, present: bool) -> float:
        """Search until the document is (or is no longer) among the results; return how many seconds that took."""
        began, deadline = monotonic(), ProgressDeadline(NO_PROGRESS_TIMEOUT_S)
        while True:
            found = await self.search(kb_id, query, document_ids=[document_id], top_k=1)
            if bool(found["results"]) is present:
                return monotonic() - began
            if deadline.is_over:
                what = "did not become searchable" if present else "was still found"
                what = f"{what} within {NO_PROGRESS_TIMEOUT_S:.0f} s"
                raise DemoFailed(f"the document {document_id!r} {what}", remedy=f"read the logs in {self._logs}")
            await asyncio.sleep(0.01)

    async def _send_request(self, method: str, path: str, *, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise DemoFailed(
                f"{method} {path} got no response ({type(error).__name__})", remedy=f"read the logs in {self._logs}"
            ) from error
        if answer.is_error:
            problem = answer.json() if "json" in answer.headers.get("content-type", "") else {}
            raise DemoFailed(
                f"{method} {path} returned {answer.status_code}: {problem.get('detail', 'no detail')}",
                remedy=f"read the logs in {self._logs}",
            )
        content: dict[str, Any] = answer.json()
        return content
