import asyncio

import pytest

from kb_shared.kafka import client_shutdown
from kb_shared.kafka.client_shutdown import shut_down_client
from tests.waiting import BRAKE_S


class UnstoppableClient:
    """A client whose `stop` does not return, also when it is cancelled, and that is built otherwise than we think."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def stop(self) -> None:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


async def test_a_client_that_can_not_be_closed_is_left_behind_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_shutdown, "CANCEL_EVERY_S", 0.01)
    client = UnstoppableClient()
    try:
        async with asyncio.timeout(BRAKE_S):
            await shut_down_client(client, within_s=0.01)
    finally:
        client.released.set()
