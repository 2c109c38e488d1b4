"""Rules of a server for crawlers, from its robots.txt (RFC 9309)."""

from dataclasses import dataclass
from typing import Final

from protego import Protego

from kb_knowledge.sources.guarded_http import ROBOT

MAX_ROBOTS_BYTES: Final = 512_000
"""Length that is read of a robots.txt."""
MAX_DELAY_S: Final = 10.0
"""Longest pause between two requests that a robots.txt can ask for."""
_MAX_SITEMAPS: Final = 10
_OK: Final = 200
_CLIENT_ERROR: Final = 4


@dataclass(frozen=True, slots=True)
class Robots:
    """Rules of one server."""

    rules: Protego | None
    """Rules; None if nothing may be fetched."""

    def allows(self, url: str) -> bool:
        return self.rules is not None and self.rules.can_fetch(url, ROBOT)

    @property
    def delay_s(self) -> float:
        """Return the pause that it asks for between two requests."""
        asked = self.rules.crawl_delay(ROBOT) if self.rules else None
        return min(max(asked or 0.0, 0.0), MAX_DELAY_S)

    @property
    def sitemaps(self) -> tuple[str, ...]:
        return tuple(self.rules.sitemaps)[:_MAX_SITEMAPS] if self.rules else ()


def robots_of(status: int, body: bytes) -> Robots:
    """Return the rules in an answer. A server without robots.txt allows all, one that fails nothing."""
    if status == _OK:
        return Robots(Protego.parse(body[:MAX_ROBOTS_BYTES].decode("utf-8", "replace").lstrip("\ufeff")))
    if status // 100 == _CLIENT_ERROR:
        return Robots(Protego.parse(""))
    return Robots(None)
