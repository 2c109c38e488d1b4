"""What a stranger, or an organization with a key, can do to the HTTP servers."""

import asyncio
from typing import Final

from tests.noisy_neighbour.connection import connected, head
from tests.noisy_neighbour.neighbourhood import Neighbourhood
from tests.noisy_neighbour.trial import Tally, Trial

LARGE_BODY: Final = b"[" + b",".join([b'{"":0}'] * 285_000) + b"]"
"""2 MB that take long to parse."""
JSON: Final = {"Content-Type": "application/json"}


async def test_large_bodies_without_a_key_cost_nobody_else_anything(trial: Trial) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        async with asyncio.TaskGroup() as senders:
            for url, method, path in (
                (neighbourhood.innocent.kb_search_url, "POST", "/knowledge-bases/search"),
                (neighbourhood.innocent.kb_api_url, "POST", "/tags"),
            ):
                start = head(
                    method,
                    neighbourhood.innocent.path + path,
                    {**JSON, "Content-Length": str(len(LARGE_BODY)), "Authorization": "Bearer kb_0_0"},
                )
                for _ in range(4):
                    senders.create_task(_send_again_and_again(url, start + LARGE_BODY, tally))

    tally = await trial.survives(attack)
    assert tally["401"] > 0
    assert tally.keys() == {"401"}


async def _send_again_and_again(url: str, request: bytes, tally: Tally) -> None:
    while True:
        async with connected(url) as connection:
            await connection.send(request)
            tally[str(await connection.status())] += 1
