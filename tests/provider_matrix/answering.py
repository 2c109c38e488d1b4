from typing import Any

from tests.hostile_provider import Asked, Behaviour


def answers(body: str, *, status: int = 200, kind: str = "") -> Behaviour:
    """Answer with this body; without a kind, with that of its form."""
    is_stream = body.startswith(("data:", "event:", ":"))
    usual = "text/event-stream" if is_stream else "application/json"

    async def behaviour(writer: Any, _: Asked) -> None:
        sent = body.encode()
        lines = [f"HTTP/1.1 {status} X", f"content-type: {kind or usual}", f"content-length: {len(sent)}"]
        head = "\r\n".join([*lines, "location: http://127.0.0.1:9/", "connection: close", "", ""])
        writer.write(head.encode() + sent)
        await writer.drain()

    return behaviour
