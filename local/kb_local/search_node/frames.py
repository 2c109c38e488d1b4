"""Cutting a byte stream into messages without holding up those that nobody has to read."""

from collections.abc import Callable
from enum import Enum

from kb_local.search_node.wire import HEADER_BYTES, read_header


class Verdict(Enum):
    PASS = "pass"  # noqa: S105  # not a password
    HOLD = "hold"
    MORE = "more"


class FrameSplitter:
    """Passes bytes on as they come, and holds only the messages that `judge` wants whole.

    Args:
        judge: called with the bytes and the place where a message begins, of which at least the header is there. It may
            answer MORE until the whole message is there.
        forward: takes bytes that pass.
        take: takes one whole held message; it may `pause` the splitter.
    """

    def __init__(
        self,
        *,
        judge: Callable[[bytes, int], Verdict],
        forward: Callable[[bytes], None],
        take: Callable[[bytes], None],
    ) -> None:
        self._judge = judge
        self._forward = forward
        self._take = take
        self._passing = 0
        self._kept = b""
        self._paused = False

    def pause(self) -> None:
        """Keep what comes until `resume`."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.feed(b"")

    def feed(self, data: bytes) -> None:
        if self._kept:
            data, self._kept = self._kept + data, b""
        at = forwarded = 0
        while at < len(data) and not self._paused:
            if self._passing:
                step = min(self._passing, len(data) - at)
                self._passing -= step
                at += step
                continue
            verdict = self._judge(data, at) if len(data) - at >= HEADER_BYTES else Verdict.MORE
            if verdict is Verdict.MORE:
                break
            length = read_header(data, at).length
            if verdict is Verdict.PASS:
                self._passing = length
                continue
            if len(data) - at < length:
                break
            # What came before goes out first: messages keep their order.
            self._send(data, forwarded, at)
            at += length
            forwarded = at
            self._take(data[at - length : at])
        self._send(data, forwarded, at)
        # A `take` that resumed at once has fed nothing: all that is left is here.
        self._kept = data[at:]

    def _send(self, data: bytes, start: int, end: int) -> None:
        if start < end:
            self._forward(data if (start, end) == (0, len(data)) else data[start:end])
