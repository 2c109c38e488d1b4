"""Batches lookups by key: keys that are asked for while a lookup runs are looked up together in the next one.

An idle process waits for nothing. Under load, the more keys are asked for at once, the fewer lookups there are. A
lookup that hangs delays the next one by two seconds at most.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")

AT_MOST = 100
PATIENCE_S: Final = 2.0
"""Time for which a lookup may delay the next one: a caller must not wait for two deadlines."""


class BatchLoader(Generic[Key, Answer]):
    """Turns a lookup of many keys into one of a single key.

    A value is always read after it was asked for, so the caller sees what was written before. A caller that is
    cancelled does not disturb the others.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Key]], Awaitable[Mapping[Key, Answer]]],
        *,
        at_most: int = AT_MOST,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Batch the lookups of `ask`.

        Args:
            ask: returns values by key, without the keys it does not find. All callers of a batch get what it raises.
            at_most: maximum number of keys in one batch.
            patience_s: seconds for which a batch may delay the next one.
        """
        self._ask = ask
        self._at_most = at_most
        self._patience_s = patience_s
        self._waiting: dict[Key, asyncio.Future[Answer | None]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, key: Key) -> Answer | None:
        """Return the value of `key`; None if there is none."""
        answer = self._waiting.get(key)
        if answer is None:
            answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            # The task belongs to all callers: it must not inherit the deadline, session or log fields of one of them.
            self._asking = asyncio.create_task(self._ask_while_wanted(), context=contextvars.Context())
        # Not awaited itself: a cancellation would cancel it for all.
        await asyncio.wait([answer])
        return answer.result()

    async def _ask_while_wanted(self) -> None:
        try:
            while self._waiting:
                # Tasks that are about to ask now join the batch.
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
                # Retrieved, so that asyncio does not log it if all callers have left.
                answer.exception()
            return
        for key, answer in asked.items():
            answer.set_result(answers.get(key))
