"""Where logs are written to."""

from typing import TextIO


class LogStream:
    """Drops what a stream does not take: no work may fail because a full disk takes no log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            return
