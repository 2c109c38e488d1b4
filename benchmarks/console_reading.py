"""People who read pages of the console, as a load of `benchmarks.service_resources`."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Final

import httpx

from kb_local.stack import Stack
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel, run_two_or_cancel

_TABS: Final = 4
_PAGES: Final = (
    "knowledge-bases", "knowledge-bases/new", "knowledge-bases/{kb_id}", "knowledge-bases/{kb_id}/documents",
    "knowledge-bases/{kb_id}/documents/document-1", "knowledge-bases/{kb_id}/search?q=question",
    "knowledge-bases/{kb_id}/settings", "search?q=question", "documents", "knowledge", "knowledge/sources",
    "knowledge/entities", "knowledge/graph", "chat", "prompts", "agents", "insights", "usage", "usage/budget",
    "operations", "operations/failed", "operations/dead-letters", "operations/drift", "operations/jobs",
    "settings/keys", "settings/providers", "settings/tags", "settings/webhooks", "settings/audit",
)  # fmt: skip


class PageReaders:
    """Somebody who is signed in and reads all pages in turn, in a few tabs."""

    def __init__(self, stack: Stack, kb_id: str, *, pages_per_s: float) -> None:
        self._stack = stack
        self._kb_id = kb_id
        self._pages_per_s = pages_per_s
        self.answered = Counter[str]()
        """Number of pages by status; of those that failed, also by path."""

    async def read(self, *, seconds: float) -> None:
        origin = self._stack.base_url
        async with httpx.AsyncClient(base_url=origin, headers={"Origin": origin}, timeout=60) as browser:
            signed_in = await browser.post("/console/sign-in", data={"api_key": self._stack.api_key})
            # It leads to the first page.
            assert signed_in.has_redirect_location, signed_in.text
            numbers = count()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await run_all_or_cancel([self._keep_reading(browser, numbers) for _ in range(_TABS)])

    async def _keep_reading(self, browser: httpx.AsyncClient, numbers: Iterator[int]) -> None:
        while True:
            path = _PAGES[next(numbers) % len(_PAGES)]
            address = f"/console/orgs/{self._stack.organization_id}/{path.format(kb_id=self._kb_id)}"
            response, _ = await run_two_or_cancel(browser.get(address), asyncio.sleep(_TABS / self._pages_per_s))
            self.answered[f"{response.status_code} {path}" if response.is_error else "200"] += 1
