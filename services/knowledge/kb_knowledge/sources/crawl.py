"""Reads the pages of a web site: those that a page links to, or that its sitemap names, within the scope.

A page that an earlier run has stored is gone if the server says so with 404 or 410, or if it asks robots to leave it
out; not because no link leads to it any more, and not because the server shows something else in its place.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from kb_knowledge.sources.canonical_url import canonical_url
from kb_knowledge.sources.crawl_pace import CrawlPace
from kb_knowledge.sources.crawl_scope import CrawlScope, origin_of
from kb_knowledge.sources.frontier import Frontier, FrontierItem, FrontierKind
from kb_knowledge.sources.guarded_http import FetchFailed, FetchLimits, GuardedHttp
from kb_knowledge.sources.parse_item import ItemParser
from kb_knowledge.sources.read_items import ReadItem, SourceUnusable
from kb_knowledge.sources.read_pages import MAY_PASS, WebPageReader
from kb_knowledge.sources.record_item import ItemRecorder
from kb_knowledge.sources.robots_files import RobotsFiles
from kb_knowledge.sources.sitemap import MAX_SITEMAP_BYTES, UnusableSitemap, parse_sitemap
from kb_knowledge.sources.source_items import ItemOutcome

MAX_PAGES: Final = 200
"""Number of pages that a run reads."""
MAX_DEPTH: Final = 5
_MAX_SITEMAPS: Final = 20
_SITEMAP_LIMITS: Final = FetchLimits(max_bytes=MAX_SITEMAP_BYTES, within_s=30)
_KNOWN: Final = FrontierItem("known pages", kind=FrontierKind.KNOWN)


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
        self._frontier = frontier
        self._recorder = recorder
        self._pace = pace
        self._robots = RobotsFiles(http, frontier, pace)
        self._pages = WebPageReader(
            plan.scope,
            depth=plan.depth,
            limits=plan.page_limits,
            http=http,
            parser=parser,
            recorder=recorder,
            pace=pace,
        )
        self._sitemaps = 0
        self._guessed_sitemap = f"{origin_of(plan.scope.start)}/sitemap.xml"

    async def begin(self) -> None:
        """Put the first page, and the sitemaps of its server, into the frontier.

        Raises:
            SourceUnusable: robots.txt does not allow us the first page, or can't be read.
        """
        start = self._plan.scope.start
        robots = await self._robots.read_rules(start)
        if not robots.allows(start):
            raise SourceUnusable(
                "robots.txt of the server can't be read; try again later"
                if robots.rules is None
                else "robots.txt of the server does not allow us the address; ask its operator"
            )
        if self._plan.depth > 0:
            named = [canonical_url(address, base=start) for address in robots.sitemaps or (self._guessed_sitemap,)]
            await self._frontier.add(self._sitemap_items(named))
        await self._frontier.add([FrontierItem(start), _KNOWN])

    async def read(self, item: FrontierItem) -> ReadItem:
        """Fetch a page, store its text and return its links."""
        if item.kind is FrontierKind.KNOWN:
            return await self._ask_for_known_pages()
        if item.kind is FrontierKind.SITEMAP:
            try:
                # Servers name sitemaps of other servers, too.
                await self._http.check_hop(self._plan.scope.start, item.address)
            except FetchFailed as refused:
                return ReadItem(ItemOutcome.SKIPPED, message=str(refused))
        robots = await self._robots.read_rules(item.address)
        if robots.rules is None:
            return await self._pages.fail(item, "robots.txt of its server can't be read; nothing may be fetched")
        if not robots.allows(item.address):
            return ReadItem(ItemOutcome.SKIPPED, message="robots.txt does not allow it")
        if item.kind is FrontierKind.SITEMAP:
            return await self._read_sitemap(item)
        return await self._pages.read(item)

    async def _ask_for_known_pages(self) -> ReadItem:
        """Return the pages of earlier runs that nothing led to, so that each is asked whether it is still there.

        A page whose entry somebody has deleted is forgotten with it.
        """
        known = await self._recorder.known_items.find_entry_ids()
        found = [
            FrontierItem(key, depth=max(self._plan.depth, 1))
            for key, entry_ids in known.items()
            if self._plan.scope.contains(key) and await self._recorder.entries.exists(entry_ids[0])
        ]
        return ReadItem(ItemOutcome.UNCHANGED, found=tuple(found))

    async def _read_sitemap(self, item: FrontierItem) -> ReadItem:
        await self._pace.wait(item.address)
        try:
            fetched = await self._http.follow(item.address, _SITEMAP_LIMITS)
            if fetched.status in MAY_PASS or fetched.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return await self._unread_sitemap(item, f"the server answered with {fetched.status}")
            if fetched.status != HTTPStatus.OK:
                return ReadItem(ItemOutcome.GONE)
            sitemap = parse_sitemap(fetched.body)
        except FetchFailed as failed:
            return await self._unread_sitemap(item, str(failed))
        except UnusableSitemap as unusable:
            return ReadItem(ItemOutcome.SKIPPED, message=f"the sitemap can't be used: {unusable}")
        pages = [canonical_url(page, base=item.address) for page in sitemap.pages]
        further = [canonical_url(page, base=item.address) for page in sitemap.sitemaps]
        found = [FrontierItem(page, depth=1) for page in pages if page and self._plan.scope.contains(page)]
        return ReadItem(
            ItemOutcome.UNCHANGED, bytes_read=len(fetched.body), found=(*self._sitemap_items(further), *found)
        )

    async def _unread_sitemap(self, item: FrontierItem, reason: str) -> ReadItem:
        """Describe a sitemap that can perhaps be read later. The run has not read all, if the server names it."""
        message = f"the sitemap can't be fetched: {reason}"
        is_named = item.address != self._guessed_sitemap or bool((await self._robots.read_rules(item.address)).sitemaps)
        problem = f"{message}; pages that only it names were not found" if is_named else None
        return ReadItem(ItemOutcome.SKIPPED, message=message, problem=problem)

    def _sitemap_items(self, addresses: Iterable[str | None]) -> list[FrontierItem]:
        left = _MAX_SITEMAPS - self._sitemaps
        items = [FrontierItem(address, kind=FrontierKind.SITEMAP) for address in addresses if address][:left]
        self._sitemaps += len(items)
        return items
