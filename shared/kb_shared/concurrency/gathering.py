"""One question instead of many: what is asked while an answer is under way waits and goes into the next together.

When nothing else goes on it costs no time; under load, the more is asked at once, the fewer questions there are. A
question that hangs holds up the next one for two seconds only.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")

AT_MOST = 100
PATIENCE_S: Final = 2.0
"""How long a question may hold up the next one: a caller must not wait for two deadlines."""


class Gathering(Generic[Key, Answer]):
    """Turns a function of many keys into one of a single key.

    An answer is always to a question that began after it was asked for, so what was written before is seen. Who is
    cancelled meanwhile leaves the others alone.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Key]], Awaitable[Mapping[Key, Answer]]],
        *,
        at_most: int = AT_MOST,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Gather for `ask`.

        Args:
            ask: answers by key, without those it knows nothing of. What it raises, all who asked get.
            at_most: keys in one question.
            patience_s: how long a question may hold up the next one.
        """
        self._ask = ask
        self._at_most = at_most
        self._patience_s = patience_s
        self._waiting: dict[Key, asyncio.Future[Answer | None]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, key: Key) -> Answer | None:
        """Return the answer to `key`; None if there is none."""
        answer = self._waiting.get(key)
        if answer is None:
            answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            # It belongs to all callers: it takes over no caller's deadline, session or log fields.
            self._asking = asyncio.create_task(self._ask_while_wanted(), context=contextvars.Context())
        # Not awaited itself: a cancellation would cancel it for all.
        await asyncio.wait([answer])
        return answer.result()

    async def _ask_while_wanted(self) -> None:
        try:
            while self._waiting:
                # Whoever is about to ask in this very moment may join.
                await asyncio.sleep(0)
                keys = list(self._waiting)[: self._at_most]
                asked = asyncio.create_task(self._answer({key: self._waiting.pop(key) for key in keys}))
                self._under_way.add(asked)
                asked.add_done_callback(self._under_way.discard)
                await asyncio.wait([asked], timeout=self._patience_s)
        finally:
            self._asking = None

    async def _answer(self, asked: Mapping[Key, "asyncio.Future[Answer | None]"]) -> None:
        try:
            answers = await self._ask(list(asked))
        except Exception as error:  # noqa: BLE001  # it belongs to those who asked
            for answer in asked.values():
                answer.set_exception(error)
                # Looked at, in case that everybody has left.
                answer.exception()
            return
        for key, answer in asked.items():
            answer.set_result(answers.get(key))
