"""Calls the services as the measured organization, in a process of its own.

What an attacker's calls cost their own process must not be taken for what the services cost the measured organization.

The first line of the input says as JSON whom to call. Then each line `work` begins with the work, and the line after it
ends it: requests that have begun by then are waited for, and a line of JSON says how they went.
"""

import asyncio
import json
import random
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, Final
from uuid import uuid4

import httpx

SEARCH_PAUSE_S: Final = 0.05
PUBLISH_PAUSE_S: Final = 0.5
_WORDS: Final = ("river", "mountain", "garden", "window", "letter", "winter", "music", "bridge", "forest", "market")


@dataclass(frozen=True, slots=True)
class CallerConfig:
    """The services to call, and the key to call them with."""

    kb_api_url: str
    """URL of kb-api for the organization."""
    kb_search_url: str
    headers: Mapping[str, str]
    timeout_s: float
    kb_id: str
    tag_id: str

    def client(self, url: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=url,
            headers=self.headers,
            timeout=self.timeout_s,
            # A new connection for each request: a server that takes no more of them is noticed.
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
            verify=False,  # there is no TLS, and loading certificates takes long
        )


@dataclass(slots=True)
class Calls:
    """Outcomes of the calls of some time."""

    search_s: list[float] = field(default_factory=list)
    publish_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    document_ids: list[str] = field(default_factory=list)
    """Ids of the documents whose publication was acknowledged."""


async def main() -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    whom = CallerConfig(**json.loads(await lines.readline()))
    while await lines.readline():
        calls, stop = Calls(), asyncio.Event()
        async with asyncio.TaskGroup() as work:
            work.create_task(_search(whom, calls, stop))
            work.create_task(_publish(whom, calls, stop))
            await lines.readline()
            stop.set()
        print(json.dumps(asdict(calls)), flush=True)  # noqa: T201  # the answer


async def _search(whom: CallerConfig, calls: Calls, stop: asyncio.Event) -> None:
    async with whom.client(whom.kb_search_url) as http:
        while not stop.is_set():
            # A new question: its vector is in no cache and has to be computed.
            body = {"query": uuid4().hex}
            began = perf_counter()
            if await _succeeds(calls, http, "POST", f"/knowledge-bases/{whom.kb_id}/search", body):
                calls.search_s.append(perf_counter() - began)
            await _pause(stop, SEARCH_PAUSE_S)


async def _publish(whom: CallerConfig, calls: Calls, stop: asyncio.Event) -> None:
    async with whom.client(whom.kb_api_url) as http:
        while not stop.is_set():
            document_id = f"measured-{uuid4().hex[:12]}"
            body = {
                "document_name": document_id,
                "tag_ids": [whom.tag_id],
                "upload_date": "2026-01-31T12:00:00Z",
                "text": f"{document_id}: {' '.join(random.choices(_WORDS, k=30))}.",  # no secret
            }
            began = perf_counter()
            if await _succeeds(calls, http, "PUT", f"/documents/{document_id}", body):
                calls.publish_s.append(perf_counter() - began)
                calls.document_ids.append(document_id)
            await _pause(stop, PUBLISH_PAUSE_S)


async def _succeeds(calls: Calls, http: httpx.AsyncClient, method: str, path: str, body: Mapping[str, Any]) -> bool:
    try:
        answer = await http.request(method, path, json=body)
    except httpx.HTTPError as error:
        calls.failures.append(f"{method} {path}: {error!r}")
        return False
    if not answer.is_success:
        calls.failures.append(f"{method} {path}: {answer.status_code} {answer.text}")
    elif degraded := answer.json().get("degraded"):
        calls.failures.append(f"{method} {path}: degraded {degraded}")
    return answer.is_success


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


if __name__ == "__main__":
    asyncio.run(main())
