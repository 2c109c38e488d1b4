import asyncio
import struct
from collections.abc import Mapping
from typing import Any

import bson

HEADER = struct.Struct("<iiii")
OP_MSG = 2013
ONE_DOCUMENT = struct.pack("<IB", 0, 0)


async def run_command(host: str, port: int, *, command: Mapping[str, Any], timeout_s: float = 2.0) -> dict[str, Any]:
    """Run one command on the `admin` database over a connection of its own and return the reply, `ok` or not.

    For servers that are just starting, where a driver is too much: it keeps watching in the background, learns a
    replica set only if that was there when it connected, and leaves sockets open when it is closed early.

    Raises:
        OSError: no response, or not in time.
    """
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            body = ONE_DOCUMENT + bson.encode({**command, "$db": "admin"})
            writer.write(HEADER.pack(HEADER.size + len(body), 1, 0, OP_MSG) + body)
            length, *_ = HEADER.unpack(await reader.readexactly(HEADER.size))
            reply = await reader.readexactly(length - HEADER.size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the connection ended within the reply") from error
        finally:
            writer.close()
    return dict(bson.decode(reply[len(ONE_DOCUMENT) :]))
