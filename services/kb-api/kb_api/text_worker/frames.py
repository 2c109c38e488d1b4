"""Messages between kb-api and its text worker: JSON, preceded by its length in four bytes."""

import json
from typing import Any, Final

LENGTH_BYTES: Final = 4


def to_frame(message: dict[str, Any]) -> bytes:
    # Escaped, because a lone surrogate has no UTF-8.
    body = json.dumps(message, ensure_ascii=True).encode()
    return len(body).to_bytes(LENGTH_BYTES) + body


def body_length(head: bytes) -> int:
    return int.from_bytes(head)


def from_body(body: bytes) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(body)
    return message
