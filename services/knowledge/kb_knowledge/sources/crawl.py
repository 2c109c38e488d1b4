"""Reads the pages of a web site: those that a page links to, or that its sitemap names, within the scope."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit

from kb_client.files.extraction import WebLinks
from kb_client.files.parsed_file import ParsedFile
from kb_knowledge.sources.canonical_url import canonical_url
from kb_knowledge.sources.crawl_pace import CrawlPace
from kb_knowledge.sources.crawl_scope import CrawlScope, origin_of
from kb_knowledge.sources.frontier import Frontier, FrontierItem, FrontierKind
from kb_knowledge.sources.guarded_http import MAX_REDIRECTS, Fetched, FetchFailed, FetchLimits, GuardedHttp
from kb_knowledge.sources.incremental import conditional_headers, read_validators
from kb_knowledge.sources.parse_item import MEDIA_TYPES_OF_PAGES, ItemParser, ItemUnreadable
from kb_knowledge.sources.read_items import ReadItem, SourceUnusable
from kb_knowledge.sources.record_item import ItemRecorder
from kb_knowledge.sources.robots import MAX_ROBOTS_BYTES, Robots, robots_of
from kb_knowledge.sources.sitemap import MAX_SITEMAP_BYTES, UnusableSitemap, parse_sitemap
from kb_knowledge.sources.source_items import ItemOutcome, KnownItem, SourceItem
from kb_shared import failpoints

MAX_PAGES: Final = 200
"""Number of pages that a run reads."""
MAX_DEPTH: Final = 5
_MAX_SITEMAPS: Final = 20
_MAX_KNOWN_LINKS: Final = 500
"""Number of links of a page that are kept for runs in which it is unchanged."""
_ROBOTS_LIMITS: Final = FetchLimits(max_bytes=4 * MAX_ROBOTS_BYTES, within_s=20)
_GONE: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
_CLIENT_ERROR: Final = 4
_MAY_PASS: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    scope: CrawlScope
    depth: int
    """Number of links that may lead from the first page to another: 0 is the first page alone."""
    page_limits: FetchLimits = field(default_factory=FetchLimits)


class Crawler:
    """Reads the items of one run."""

    def __init__(
        self,
        plan: CrawlPlan,
        *,
        http: GuardedHttp,
        parser: ItemParser,
        frontier: Frontier,
        recorder: ItemRecorder,
        pace: CrawlPace,
    ) -> None:
        self._plan = plan
        self._http = http
        self._parser = parser
        self._frontier = frontier
        self._recorder = recorder
        self._pace = pace
        self._robots: dict[str, Robots] = {}
        self._sitemaps = 0

    async def begin(self) -> None:
        """Put the first page, and the sitemaps of its server, into the frontier.

        Raises:
            SourceUnusable: robots.txt does not allow us the first page, or can't be read.
        """
        start = self._plan.scope.start
        robots = await self._robots_of(start)
        if not robots.allows(start):
            raise SourceUnusable(
                "robots.txt of the server can't be read; try again later"
                if robots.rules is None
                else "robots.txt of the server does not allow us the address; ask its operator"
            )
        if self._plan.depth > 0:
            named = [canonical_url(address, base=start) for address in robots.sitemaps or ("/sitemap.xml",)]
            await self._frontier.add(self._sitemap_items(named))
        await self._frontier.add([FrontierItem(start)])

    async def read(self, item: FrontierItem) -> ReadItem:
        """Fetch a page, store its text and return its links."""
        if not (await self._robots_of(item.address)).allows(item.address):
            return ReadItem(ItemOutcome.SKIPPED, message="robots.txt does not allow it")
        if item.kind is FrontierKind.SITEMAP:
            return await self._read_sitemap(item)
        return await self._read_page(item)

    async def _read_page(self, item: FrontierItem) -> ReadItem:
        known = await self._recorder.known_items.find(item.address)
        try:
            fetched = await self._fetch(item.address, known)
        except FetchFailed as failed:
            return self._fail(item, str(failed), known)
        await failpoints.reach("source.after_fetch")
        if fetched.status == HTTPStatus.OK:
            return await self._record(item, fetched, known)
        if fetched.status == HTTPStatus.NOT_MODIFIED and known is not None:
            return ReadItem(ItemOutcome.UNCHANGED, key=item.address, found=self._items(known.links, item))
        if fetched.redirect_to is not None:
            return self._follow(item, fetched.redirect_to, known)
        return self._explain_status(item, fetched.status, known)

    def _explain_status(self, item: FrontierItem, status: int, known: KnownItem | None) -> ReadItem:
        message = f"the server answered with {status}"
        if known is None and _is_first(item):
            return self._fail(item, f"{message}; check the url of the source", known)
        if status in _GONE:
            return ReadItem(ItemOutcome.GONE)
        if known is None and status // 100 == _CLIENT_ERROR and status not in _MAY_PASS:
            return ReadItem(ItemOutcome.SKIPPED, message=message)
        return self._fail(item, message, known)

    def _fail(self, item: FrontierItem, message: str, known: KnownItem | None, *, bytes_read: int = 0) -> ReadItem:
        """Describe a failure. What a page led to in the last run is read all the same."""
        return ReadItem(
            ItemOutcome.FAILED,
            key=known.key if known else None,
            message=message,
            bytes_read=bytes_read,
            found=self._items(known.links, item) if known else (),
            problem=f"the first page was not read: {message}" if _is_first(item) else None,
        )

    async def _fetch(self, url: str, known: KnownItem | None) -> Fetched:
        await self._pace.wait(url)
        fetched = await self._http.fetch(
            url, self._plan.page_limits, headers=conditional_headers(known), accepts=MEDIA_TYPES_OF_PAGES.__contains__
        )
        self._pace.observe(url, status=fetched.status, headers=fetched.headers)
        return fetched

    async def _record(self, item: FrontierItem, fetched: Fetched, known: KnownItem | None) -> ReadItem:
        size = len(fetched.body)
        if fetched.media_type not in MEDIA_TYPES_OF_PAGES:
            return ReadItem(ItemOutcome.SKIPPED, message="it is no page of text")
        try:
            parsed = await self._parser.parse_page(
                fetched.body, media_type=fetched.media_type, charset=_charset(fetched), name=_name(item.address)
            )
        except ItemUnreadable as unreadable:
            return self._fail(item, str(unreadable), known, bytes_read=size)
        web = parsed.web_links or WebLinks()
        links = self._links(item.address, web)
        canonical = self._canonical(item.address, web)
        if canonical is not None:
            target = FrontierItem(canonical, depth=item.depth, redirects=item.redirects + 1)
            return ReadItem(ItemOutcome.REDIRECTED, bytes_read=size, found=(target, *self._items(links, item)))
        if not web.index or not parsed.text.strip():
            message = "it has no text" if web.index else "it asks not to be read by robots"
            return ReadItem(ItemOutcome.SKIPPED, message=message, bytes_read=size, found=self._items(links, item))
        return await self._store(item, fetched, parsed, known=known, links=links)

    async def _store(
        self,
        item: FrontierItem,
        fetched: Fetched,
        parsed: ParsedFile,
        *,
        known: KnownItem | None,
        links: tuple[str, ...],
    ) -> ReadItem:
        recorded = await self._recorder.record(
            SourceItem(item.address, parsed.document_name, parsed.text, url=item.address),
            known=known,
            validators=read_validators(fetched.headers),
            links=links[:_MAX_KNOWN_LINKS],
        )
        return ReadItem(
            recorded.outcome,
            key=item.address,
            message=recorded.problem or "; ".join(parsed.warnings) or None,
            bytes_read=len(fetched.body),
            found=self._items(links, item),
        )

    def _follow(self, item: FrontierItem, location: str, known: KnownItem | None) -> ReadItem:
        target = canonical_url(location, base=item.address)
        if target is None or not self._plan.scope.contains(target):
            if _is_first(item):
                return self._fail(item, _explain_redirect(target), known)
            return ReadItem(ItemOutcome.SKIPPED, message="it redirects to an address outside of the source")
        if item.redirects >= MAX_REDIRECTS or target == item.address:
            return ReadItem(ItemOutcome.SKIPPED, message=f"it redirects more than {MAX_REDIRECTS} times")
        # The target is an item like others: it is checked, and read once, whatever leads to it.
        found = FrontierItem(target, depth=item.depth, redirects=item.redirects + 1)
        return ReadItem(ItemOutcome.REDIRECTED, found=(found,))

    def _links(self, url: str, web: WebLinks) -> tuple[str, ...]:
        """Return the pages of the source that a page links to."""
        if not web.follow:
            return ()
        base = (canonical_url(web.base, base=url) if web.base else None) or url
        found = (canonical_url(link, base=base) for link in web.links)
        return tuple(dict.fromkeys(link for link in found if link and link != url and self._plan.scope.contains(link)))

    def _canonical(self, url: str, web: WebLinks) -> str | None:
        """Return the address that a page should have, if it is this page with other parameters.

        Some sites name their first page in each page by mistake, and would have a single entry.
        """
        canonical = canonical_url(web.canonical, base=url) if web.canonical else None
        if canonical is None or canonical == url or not self._plan.scope.contains(canonical):
            return None
        return canonical if _without_parameters(canonical) == _without_parameters(url) else None

    def _items(self, links: Iterable[str], item: FrontierItem) -> tuple[FrontierItem, ...]:
        if item.depth >= self._plan.depth:
            return ()
        return tuple(FrontierItem(link, depth=item.depth + 1) for link in links)

    async def _read_sitemap(self, item: FrontierItem) -> ReadItem:
        await self._pace.wait(item.address)
        try:
            fetched = await self._http.follow(item.address, FetchLimits(max_bytes=MAX_SITEMAP_BYTES, within_s=30))
            if fetched.status != HTTPStatus.OK:
                return ReadItem(ItemOutcome.GONE)
            sitemap = parse_sitemap(fetched.body)
        except FetchFailed as failed:
            return ReadItem(ItemOutcome.SKIPPED, message=f"the sitemap can't be fetched: {failed}")
        except UnusableSitemap as unusable:
            return ReadItem(ItemOutcome.SKIPPED, message=f"the sitemap can't be used: {unusable}")
        pages = [canonical_url(page, base=item.address) for page in sitemap.pages]
        further = [canonical_url(page, base=item.address) for page in sitemap.sitemaps]
        found = [FrontierItem(page, depth=1) for page in pages if page and self._plan.scope.contains(page)]
        return ReadItem(
            ItemOutcome.UNCHANGED, bytes_read=len(fetched.body), found=(*self._sitemap_items(further), *found)
        )

    def _sitemap_items(self, addresses: Iterable[str | None]) -> list[FrontierItem]:
        left = _MAX_SITEMAPS - self._sitemaps
        items = [FrontierItem(address, kind=FrontierKind.SITEMAP) for address in addresses if address][:left]
        self._sitemaps += len(items)
        return items

    async def _robots_of(self, url: str) -> Robots:
        origin = origin_of(url)
        if origin not in self._robots:
            stored = await self._frontier.find_robots(origin)
            if stored is None:
                stored = await self._fetch_robots(origin)
                await self._frontier.put_robots(origin, status=stored[0], body=stored[1])
            self._robots[origin] = robots_of(*stored)
            self._pace.ask_for(url, delay_s=self._robots[origin].delay_s)
        return self._robots[origin]

    async def _fetch_robots(self, origin: str) -> tuple[int, bytes]:
        url = f"{origin}/robots.txt"
        await self._pace.wait(url)
        try:
            fetched = await self._http.follow(url, _ROBOTS_LIMITS)
        except FetchFailed:
            # As if the server had failed: nothing may be fetched.
            return HTTPStatus.SERVICE_UNAVAILABLE, b""
        return fetched.status, fetched.body[:MAX_ROBOTS_BYTES]


def _is_first(item: FrontierItem) -> bool:
    """Return whether it is the first page, or one that the first page redirects to."""
    return item.depth == 0


def _explain_redirect(target: str | None) -> str:
    if target is None:
        return "it redirects to something that is no address of a web page; check the url of the source"
    return (
        f"it redirects to {origin_of(target)}, outside of the source; set the url of the source to the address that it "
        "leads to, or add that to its prefixes"
    )


def _charset(fetched: Fetched) -> str | None:
    header = Message()
    header["content-type"] = fetched.headers.get("content-type", "")
    return header.get_content_charset()


def _name(url: str) -> str:
    """Return what a page without a title is called."""
    parts = urlsplit(url)
    name = unquote(parts.path).rstrip("/").rpartition("/")[2]
    return "".join(filter(str.isprintable, name)).strip() or parts.netloc


def _without_parameters(url: str) -> str:
    return url.partition("?")[0].rstrip("/")
