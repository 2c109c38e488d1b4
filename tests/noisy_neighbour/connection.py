"""HTTP by hand: what no client library would send, at little cost for who sends it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class RawConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send all of it; the other end may have closed the connection."""
        self.writer.write(data)
        with suppress(ConnectionError):
            await self.writer.drain()

    async def status(self) -> int | None:
        """Read the status of the next answer; None if the connection ends before it."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return int(head.split(b" ", 2)[1])

    async def ended(self) -> None:
        """Wait for the end of the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[RawConnection]:
    """Open a connection to the server of `url`."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    """The bytes of a request up to its body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
