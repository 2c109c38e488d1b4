"""As much of MongoDB's wire protocol as it takes to say what no driver would."""

import asyncio
import struct
from typing import Any

import bson


def request(command: dict[str, Any], *, request_id: int = 7, flags: int = 0) -> bytes:
    body = bson.encode(command)
    return struct.pack("<iiiiI", 21 + len(body), request_id, 0, 2013, flags) + b"\0" + body


async def read_reply(reader: asyncio.StreamReader) -> tuple[int, int, int, dict[str, Any]]:
    """Return request id, the id it answers, flags and document."""
    length, request_id, response_to, _ = struct.unpack("<iiii", await reader.readexactly(16))
    rest = await reader.readexactly(length - 16)
    return request_id, response_to, struct.unpack_from("<I", rest)[0], bson.decode(rest[5:])
