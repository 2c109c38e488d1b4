"""Stand-ins for the clients that a producer makes, which do what a test says."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiokafka.errors import KafkaConnectionError, KafkaError, ProducerClosed

from tests.waiting import until


@dataclass
class ScriptedClient:
    """A client of the client library that answers as a test tells it to."""

    log: list[str]
    """Everything that was ever written to the topic."""
    waiting: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    fails_to_start: int = 0
    stopped: bool = False
    full: asyncio.Event | None = None
    """While it is not set there is no room for another message."""

    async def start(self) -> None:
        if self.fails_to_start:
            self.fails_to_start -= 1
            raise KafkaConnectionError

    async def stop(self) -> None:
        self.stopped = True

    async def send(self, _topic: str, *, value: bytes, **_others: Any) -> asyncio.Future[None]:
        await asyncio.sleep(0)
        if self.full is not None:
            await self.full.wait()
        if self.stopped:
            raise ProducerClosed
        acknowledgement: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[value.decode()] = acknowledgement
        return acknowledgement

    def acknowledge(self, *values: str) -> None:
        for value in values:
            self.log.append(value)
            self.waiting.pop(value).set_result(None)

    def acknowledge_all(self) -> None:
        self.acknowledge(*self.waiting)

    def fail(self, error: KafkaError, *values: str) -> None:
        for value in values:
            self.waiting.pop(value).set_exception(error)


@dataclass
class Clients:
    """The clients that a producer makes, one after the other."""

    log: list[str] = field(default_factory=list)
    made: list[ScriptedClient] = field(default_factory=list)
    prepare: Callable[[ScriptedClient], None] = lambda _: None

    def make(self, *_arguments: Any, **_options: Any) -> ScriptedClient:
        client = ScriptedClient(self.log)
        self.prepare(client)
        self.made.append(client)
        return client

    async def next(self, count: int) -> ScriptedClient:
        await until(lambda: len(self.made) >= count, what=f"client {count}")
        return self.made[count - 1]
