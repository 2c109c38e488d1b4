"""An event loop whose clock jumps to the next timer, so that minutes of waiting are tested in milliseconds."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "all tasks wait without a timer"
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


class _VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _JumpingSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def freeze(self, seconds: float) -> None:
        self._virtual.now += seconds


def freeze(seconds: float) -> None:
    """Let time pass in which no task of this loop runs, as if the machine had been stopped."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _VirtualTimeLoop)
    loop.freeze(seconds)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=_VirtualTimeLoop) as runner:
        return runner.run(main())
