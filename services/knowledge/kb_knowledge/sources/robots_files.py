"""Reads the robots.txt of each server that a run comes to, once."""

from http import HTTPStatus
from typing import Final

from kb_knowledge.sources.crawl_pace import CrawlPace
from kb_knowledge.sources.crawl_scope import origin_of
from kb_knowledge.sources.frontier import Frontier
from kb_knowledge.sources.guarded_http import FetchFailed, FetchLimits, GuardedHttp
from kb_knowledge.sources.robots import MAX_ROBOTS_BYTES, Robots, robots_of

_LIMITS: Final = FetchLimits(max_bytes=20 * MAX_ROBOTS_BYTES, within_s=20)


class RobotsFiles:
    """Rules of the servers of one run."""

    def __init__(self, http: GuardedHttp, frontier: Frontier, pace: CrawlPace) -> None:
        self._http = http
        self._frontier = frontier
        self._pace = pace
        self._robots: dict[str, Robots] = {}

    async def read_rules(self, url: str) -> Robots:
        """Return the rules of the server of an address, and keep to the pause that they ask for from now on."""
        origin = origin_of(url)
        if origin not in self._robots:
            stored = await self._frontier.find_robots(origin)
            if stored is None:
                stored = await self._fetch(origin)
                await self._frontier.put_robots(origin, status=stored[0], body=stored[1])
            self._robots[origin] = robots_of(*stored)
            self._pace.ask_for(url, delay_s=self._robots[origin].delay_s)
        return self._robots[origin]

    async def _fetch(self, origin: str) -> tuple[int, bytes]:
        url = f"{origin}/robots.txt"
        await self._pace.wait(url)
        try:
            fetched = await self._http.follow(url, _LIMITS)
        except FetchFailed:
            # As if the server had failed: nothing may be fetched.
            return HTTPStatus.SERVICE_UNAVAILABLE, b""
        return fetched.status, fetched.body[:MAX_ROBOTS_BYTES]
