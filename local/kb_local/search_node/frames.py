"""Splits a byte stream into messages, without delaying those that the node need not read."""

from collections.abc import Callable
from enum import Enum

from kb_local.search_node.wire import HEADER_BYTES, read_header


class FrameAction(Enum):
    PASS = "pass"  # noqa: S105  # not a password
    HOLD = "hold"
    MORE = "more"


class FrameSplitter:
    """Passes bytes on as they come, and holds back only the messages for which `choose_action` returns HOLD.

    Args:
        choose_action: called with the bytes and the position of a message, whose header is complete. It may
            answer MORE until the whole message is there.
        forward: called with bytes that pass.
        handle_frame: called with one complete held message; it may `pause` the splitter.
    """

    def __init__(
        self,
        *,
        choose_action: Callable[[bytes, int], FrameAction],
        forward: Callable[[bytes], None],
        handle_frame: Callable[[bytes], None],
    ) -> None:
        self._choose_action = choose_action
        self._forward = forward
        self._handle_frame = handle_frame
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
            action = self._choose_action(data, at) if len(data) - at >= HEADER_BYTES else FrameAction.MORE
            if action is FrameAction.MORE:
                break
            length = read_header(data, at).length
            if action is FrameAction.PASS:
                self._passing = length
                continue
            if len(data) - at < length:
                break
            # What came before goes out first: messages keep their order.
            self._send(data, forwarded, at)
            at += length
            forwarded = at
            self._handle_frame(data[at - length : at])
        self._send(data, forwarded, at)
        # A `handle_frame` that resumed at once has fed nothing: all that is left is here.
        self._kept = data[at:]

    def _send(self, data: bytes, start: int, end: int) -> None:
        if start < end:
            self._forward(data if (start, end) == (0, len(data)) else data[start:end])
