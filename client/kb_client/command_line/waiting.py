"""Says on a terminal that a command waits for the server, once an answer takes longer than a second."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

from kb_client.command_line.output import open_console

SHOWN_AFTER_S: Final = 1.0


class WaitingHttp(httpx.Client):
    """Connections whose waits are shown."""

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request, as the base class does."""
        with _shown_wait():
            return super().send(request, **options)


@contextmanager
def _shown_wait() -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    status = open_console(errors=True).status("waiting for the server")
    timer = threading.Timer(SHOWN_AFTER_S, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # It may be starting the line at this moment.
        timer.join()
        status.stop()
