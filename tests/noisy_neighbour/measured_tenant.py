"""The measured organization: searches and publishes all the time, and records how it is served."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Final

import httpx

from tests.noisy_neighbour.measured_tenant_process import CallerConfig, Calls
from tests.noisy_neighbour.neighbourhood import REQUEST_TIMEOUT_S, NeighbourClient
from tests.waiting import until

ROOT: Final = Path(__file__).parents[2]
MAX_LINE_BYTES: Final = 10_000_000
"""Greatest size of the answer about many calls."""


def p95_s(seconds: list[float]) -> float:
    return quantiles(seconds, n=20)[-1]


class MeasuredTenant:
    """Searches and publishes; one document at a time, and one search."""

    def __init__(
        self, organization: NeighbourClient, tag_id: str, kb_id: str, caller: asyncio.subprocess.Process
    ) -> None:
        self.tag_id = tag_id
        self._organization = organization
        self._kb_id = kb_id
        self._caller = caller

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[Calls]:
        """Work until the block ends; only then the calls are known. Requests that have begun by then are waited for."""
        calls = Calls()
        await self._send_line("work")
        try:
            yield calls
        finally:
            await self._send_line("rest")
            assert self._caller.stdout is not None
            for name, value in json.loads(await self._caller.stdout.readline()).items():
                setattr(calls, name, value)

    async def until_searchable(self, document_ids: list[str]) -> None:
        """Wait until each of these documents is found by a search for it."""
        async with self._organization.kb_search() as kb_search, self._organization.kb_api() as kb_api:
            indexed = 0

            async def is_found(document_id: str) -> bool:
                nonlocal indexed
                indexed = await self._count_indexed(kb_api)
                return await self._finds(kb_search, document_id)

            for document_id in document_ids:
                # The deadline moves with each document of this organization, with none of the attacker's.
                await until(
                    partial(is_found, document_id),
                    what=f"{document_id} in search",
                    every_s=0.1,
                    progress=lambda: indexed,
                )

    async def _finds(self, http: httpx.AsyncClient, document_id: str) -> bool:
        body = {"query": "anything", "document_ids": [document_id], "top_k": 1}
        answer = await http.post(f"/knowledge-bases/{self._kb_id}/search", json=body)
        return bool(answer.raise_for_status().json()["results"])

    async def _count_indexed(self, http: httpx.AsyncClient) -> int:
        answer = await http.get(f"/knowledge-bases/{self._kb_id}/documents", params={"status": "indexed", "limit": 1})
        count: int = answer.raise_for_status().json()["total_count"]
        return count

    async def _send_line(self, line: str) -> None:
        assert self._caller.stdin is not None
        self._caller.stdin.write(line.encode() + b"\n")
        await self._caller.stdin.drain()


@asynccontextmanager
async def start_measured_tenant(organization: NeighbourClient) -> AsyncIterator[MeasuredTenant]:
    """Have a measured organization with a knowledge base and a process that calls for it."""
    tag_id = "measured"
    kb_id = await organization.create_knowledge_base(tag_id)
    caller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.noisy_neighbour.measured_tenant_process"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=MAX_LINE_BYTES,
    )
    measured = MeasuredTenant(organization, tag_id, kb_id, caller)
    whom = CallerConfig(
        organization.kb_api_url + organization.path,
        organization.kb_search_url + organization.path,
        organization.authorization,
        REQUEST_TIMEOUT_S,
        kb_id,
        tag_id,
    )
    try:
        await measured._send_line(json.dumps(asdict(whom)))
        # Until it has started, which is no work of a measured organization.
        async with measured.calling():
            pass
        yield measured
    finally:
        assert caller.stdin is not None
        caller.stdin.close()
        await caller.wait()
