"""Pauses between requests to one server, so that a crawl is no burden."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from kb_shared.providers.provider_errors import retry_after_s

MAX_PAUSE_S: Final = 10.0
_ASK_FOR_PAUSE: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_SLOWER: Final = 2.0
_SLOWEST_START_S: Final = 1.0


class CrawlPace:
    """Keeps the time of the last request to each server."""

    def __init__(self, *, delay_s: float) -> None:
        """Construct it; `delay_s` is the shortest pause between two requests."""
        self._delay_s = delay_s
        self._delays_s: dict[str, float] = {}
        self._next_at: dict[str, float] = {}

    def ask_for(self, url: str, *, delay_s: float) -> None:
        """Pause at least this long between requests to the server of `url` from now on."""
        host = urlsplit(url).netloc
        self._delays_s[host] = min(max(self._delays_s.get(host, self._delay_s), delay_s), MAX_PAUSE_S)

    async def wait(self, url: str) -> None:
        """Wait until the next request to the server of `url` may be sent."""
        host = urlsplit(url).netloc
        await asyncio.sleep(max(0.0, self._next_at.get(host, 0.0) - monotonic()))
        self._next_at[host] = monotonic() + self._delays_s.get(host, self._delay_s)

    def observe(self, url: str, *, status: int, headers: Mapping[str, str]) -> None:
        """Slow down for a server that says it has too much to do."""
        if status not in _ASK_FOR_PAUSE:
            return
        host = urlsplit(url).netloc
        asked_s = retry_after_s(headers) or 0.0
        slower_s = max(self._delays_s.get(host, self._delay_s) * _SLOWER, _SLOWEST_START_S)
        self.ask_for(url, delay_s=slower_s)
        self._next_at[host] = monotonic() + min(max(asked_s, slower_s), MAX_PAUSE_S)
