"""The worker process: answers each request on its standard input, and ends with it.

It ends also when kb-api is killed, because that closes the pipe.
"""

import os
import signal
import sys
from typing import BinaryIO, Final

from kb_api.text_worker.frames import LENGTH_BYTES, body_length, from_body, to_frame

NICENESS: Final = 5
"""Requests that wait for kb-api itself come first."""


def serve(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    # chonkie imports OpenAI's client if there is one, which takes two thirds of the start; no chunker here calls it.
    sys.modules["openai"] = None  # type: ignore[assignment]  # blocks its import
    from kb_api.text_worker.answers import answer

    os.nice(NICENESS)
    outgoing.write(to_frame({"ready": True}))
    outgoing.flush()
    while head := incoming.read(LENGTH_BYTES):
        body = incoming.read(body_length(head))
        outgoing.write(to_frame(answer(from_body(body))))
        outgoing.flush()


if __name__ == "__main__":
    # kb-api decides when it ends: a signal to the whole process group must not cut an answer off.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(sys.stdin.buffer, sys.stdout.buffer)
