"""Faults of a soak: when they come, and what they do to the stack."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from benchmarks.load.target import program_provider
from kb_local.stack import Stack

SETTLED_FROM: Final = 0.4
"""Share of the time after which the first replica of each service is no longer killed, so that its figures settle."""
_QUIET_FROM: Final = 0.92
"""Share of the time after which no fault comes."""
_DOWN_S: Final = 3.0
_FROZEN_S: Final = 3.0
_LONG_FROZEN_S: Final = 7.0
"""Longer than a session of a consumer, so that its partitions go to another indexer."""
_PROVIDER_S: Final = 15.0

KILLED_FIRST: Final = ("kb_indexer", "kb_search", "kb_api", "kb_reconciler")
RECURRING: Final = (
    "freeze mongod",
    "provider outage",
    "kill kb_indexer:2",
    "provider 429",
    "freeze kb_indexer for long",
    "kill kb_reconciler:2",
    "freeze kb_search",
    "stop kb_indexer:2",
    "freeze broker",
)


@dataclass(frozen=True, slots=True)
class SoakFault:
    at_s: float
    what: str


def plan_faults(*, seconds: float) -> Iterator[SoakFault]:
    """Yield the faults in the order of time. Pure.

    First, each service is killed once. Then come faults from which a process has to recover without a restart, and
    kills of second replicas.
    """
    step = seconds * SETTLED_FROM / (len(KILLED_FIRST) + 1)
    for number, name in enumerate(KILLED_FIRST, 1):
        yield SoakFault(number * step, f"kill {name}")
    rounds = max(1, round(seconds * (_QUIET_FROM - SETTLED_FROM) / (40 * len(RECURRING))))
    number_of_faults = rounds * len(RECURRING)
    step = seconds * (_QUIET_FROM - SETTLED_FROM) / number_of_faults
    for number in range(number_of_faults):
        yield SoakFault(seconds * SETTLED_FROM + number * step, RECURRING[number % len(RECURRING)])


@dataclass(slots=True)
class SoakFaults:
    """Executes a plan, and records what it did and when."""

    stack: Stack
    embed_delay_ms: float
    done: list[tuple[float, str]] = field(default_factory=list)

    async def run(self, plan: Iterator[SoakFault]) -> None:
        began = monotonic()
        for fault in plan:
            await asyncio.sleep(max(0.0, fault.at_s - (monotonic() - began)))
            self.done.append((round(monotonic() - began, 1), fault.what))
            await self._action(fault.what)()

    def _action(self, what: str) -> Callable[[], Awaitable[None]]:
        verb, _, name = what.partition(" ")
        match verb:
            case "kill":
                return lambda: self._restart(name, killed=True)
            case "stop":
                return lambda: self._restart(name, killed=False)
            case "freeze":
                server, _, long = name.partition(" for ")
                return lambda: self._freeze(server, _LONG_FROZEN_S if long else _FROZEN_S)
            case _:
                fault = {"status": 429, "retry_after_s": 1} if name == "429" else {"status": 503}
                return lambda: self._fail_provider(fault)

    async def _restart(self, name: str, *, killed: bool) -> None:
        server = self.stack.server(name)
        if killed:
            await server.kill()
        else:
            await server.stop()
        await asyncio.sleep(_DOWN_S)
        await server.start()

    async def _freeze(self, name: str, seconds: float) -> None:
        server = self.stack.server(name)
        await server.pause()
        await asyncio.sleep(seconds)
        server.resume()

    async def _fail_provider(self, fault: Mapping[str, float]) -> None:
        await program_provider(self.stack, {"delay_ms": self.embed_delay_ms, "faults": [fault]})
        await asyncio.sleep(_PROVIDER_S)
        await program_provider(self.stack, {"delay_ms": self.embed_delay_ms})
