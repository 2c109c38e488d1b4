"""Scope of a crawl: the pages of its origin, or those below its prefixes."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from kb_knowledge.sources.canonical_url import canonical_url


class UnusablePrefix(ValueError):
    """A prefix that is neither an address nor a path. The message completes "must be"."""


@dataclass(frozen=True, slots=True)
class CrawlScope:
    start: str
    """Canonical address of the first page, which always belongs to it."""
    prefixes: tuple[str, ...]
    """Canonical addresses; a page belongs to it if it is one of them or below one."""

    @classmethod
    def from_source(cls, url: str, prefixes: Sequence[str] = ()) -> "CrawlScope":
        """Make the scope of a source. Without prefixes, it is the whole origin of `url`.

        Args:
            url: canonical address of the first page.
            prefixes: addresses, or paths on the same origin such as `/docs/`.

        Raises:
            UnusablePrefix: one of them is neither.
        """
        if not prefixes:
            return cls(url, (origin_of(url) + "/",))
        return cls(url, tuple(_prefix(each, url) for each in prefixes))

    def contains(self, url: str) -> bool:
        """Return whether the page at a canonical address belongs to the source."""
        return url == self.start or any(_is_below(url, prefix) for prefix in self.prefixes)


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, without a slash at the end."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _prefix(prefix: str, url: str) -> str:
    found = canonical_url(prefix, base=url) if prefix.startswith(("/", "http://", "https://")) else None
    if found is None or "?" in found:
        raise UnusablePrefix("an address or a path, such as /docs/")
    return found


def _is_below(url: str, prefix: str) -> bool:
    # The path /docs contains /docs/a and not /docs-of-last-year.
    return url == prefix or url.startswith((prefix if prefix.endswith("/") else prefix + "/", prefix + "?"))
