"""Writes logs to a stream, without ever failing."""

from typing import TextIO


class LogStream:
    """Drops lines that the stream does not accept: a full disk must not make work fail."""

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
