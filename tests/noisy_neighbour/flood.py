"""The same request again and again, from as many attackers as it takes."""

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from tests.noisy_neighbour.attack_check import Tally
from tests.noisy_neighbour.connection import connected, head
from tests.noisy_neighbour.neighbourhood import NeighbourClient

PAUSE_S: Final = 0.2
"""Pause of an attacker between requests. Together they send up to 80 MB/s of large bodies: more than it takes, and not
so much that the machine has no time left for the others whatever the services do."""


def targets(organization: NeighbourClient) -> Sequence[tuple[str, str]]:
    """A route of each service that takes a body: the service's URL, and the path."""
    return [
        (organization.kb_search_url, f"{organization.path}/knowledge-bases/search"),
        (organization.kb_api_url, f"{organization.path}/tags"),
    ]


def post(path: str, body: bytes, headers: Mapping[str, str], *, method: str = "POST") -> bytes:
    lengths = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return head(method, path, {**headers, **lengths}) + body


def post_json(path: str, body: Mapping[str, Any], headers: Mapping[str, str], *, method: str = "POST") -> bytes:
    return post(path, json.dumps(body).encode(), headers, method=method)


async def run_attackers(attackers: Iterable[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for attacker in attackers:
            group.create_task(attacker)


async def send_repeatedly(url: str, request: bytes, tally: Tally, *, name: str = "") -> None:
    """Send the same over one new connection after the other, and count the statuses of the answers after `name`."""
    while True:
        async with connected(url) as connection:
            await connection.send(request)
            status = await connection.status()
            tally[f"{name}{status}"] += 1
        await asyncio.sleep(PAUSE_S)


async def read_repeatedly(url: str, request: bytes, tally: Tally) -> None:
    """Send the same over one new connection after the other, each to the end of the answer."""
    closed = request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    while True:
        async with connected(url) as connection:
            await connection.send(closed)
            await connection.ended()
            tally["ended"] += 1
        await asyncio.sleep(PAUSE_S)
