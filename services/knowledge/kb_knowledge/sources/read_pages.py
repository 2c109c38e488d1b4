"""Reads one page of a web site: fetches it, follows where it leads by itself, and stores its text."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from email.message import Message
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit

from kb_client.files.extraction import WebLinks
from kb_client.files.parsed_file import ParsedFile
from kb_knowledge.sources.canonical_url import canonical_url, other_spellings
from kb_knowledge.sources.crawl_pace import CrawlPace
from kb_knowledge.sources.crawl_scope import CrawlScope, origin_of
from kb_knowledge.sources.frontier import FrontierItem, HeldItem
from kb_knowledge.sources.guarded_http import MAX_REDIRECTS, Fetched, FetchFailed, FetchLimits, GuardedHttp
from kb_knowledge.sources.incremental import conditional_headers, read_validators
from kb_knowledge.sources.page_signs import PageSigns, find_page_signs, read_refresh
from kb_knowledge.sources.parse_item import HTML, MEDIA_TYPES_OF_PAGES, ItemParser, ItemUnreadable
from kb_knowledge.sources.read_items import ReadItem
from kb_knowledge.sources.record_item import ItemRecorder
from kb_knowledge.sources.robots_tags import read_robots_tags
from kb_knowledge.sources.source_items import ItemOutcome, KnownItem, SourceItem
from kb_knowledge.sources.stand_in_pages import find_stand_in
from kb_shared import failpoints

_MAX_KNOWN_LINKS: Final = 500
"""Number of links of a page that are kept for runs in which it is unchanged."""
_GONE: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
_CLIENT_ERROR: Final = 4
MAY_PASS: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_ASKS_TO_BE_LEFT_OUT: Final = "it asks not to be read by robots"


class WebPageReader:
    """Reads the pages of one run."""

    def __init__(
        self,
        scope: CrawlScope,
        *,
        depth: int,
        limits: FetchLimits,
        http: GuardedHttp,
        parser: ItemParser,
        recorder: ItemRecorder,
        pace: CrawlPace,
    ) -> None:
        self._scope = scope
        self._depth = depth
        self._limits = limits
        self._http = http
        self._parser = parser
        self._recorder = recorder
        self._pace = pace

    async def read(self, item: FrontierItem) -> ReadItem:
        """Fetch a page, store its text and return its links."""
        known = await self._recorder.known_items.find(item.address)
        try:
            fetched = await self._fetch(item.address, known)
        except FetchFailed as failed:
            return self._failed(item, str(failed), known)
        await failpoints.reach("source.after_fetch")
        if fetched.redirect_to is not None:
            return await self._follow(item, fetched.redirect_to, known)
        if fetched.status == HTTPStatus.OK:
            return await self._read_content(item, fetched, known)
        if fetched.status == HTTPStatus.NOT_MODIFIED and known is not None:
            if not read_robots_tags(fetched.robots_tags).index:
                return ReadItem(ItemOutcome.SKIPPED, message=_ASKS_TO_BE_LEFT_OUT)
            return ReadItem(
                ItemOutcome.UNCHANGED,
                key=item.address,
                found=self._items(known.links, item),
                warnings=known.warnings,
                text_digest=known.text_state,
                text_before=known.text_state,
            )
        return self._explain_status(item, fetched.status, known)

    async def fail(self, item: FrontierItem, message: str) -> ReadItem:
        """Describe a page that was not asked for. What is stored of it stays."""
        return self._failed(item, message, await self._recorder.known_items.find(item.address))

    def _explain_status(self, item: FrontierItem, status: int, known: KnownItem | None) -> ReadItem:
        message = f"the server answered with {status}"
        if known is None and _is_first(item):
            return self._failed(item, f"{message}; check the url of the source", known)
        if status in _GONE:
            return ReadItem(ItemOutcome.GONE)
        if known is None and status // 100 == _CLIENT_ERROR and status not in MAY_PASS:
            return ReadItem(ItemOutcome.SKIPPED, message=message)
        return self._failed(item, message, known)

    def _failed(
        self,
        item: FrontierItem,
        message: str,
        known: KnownItem | None,
        *,
        bytes_read: int = 0,
        has_answered: bool = False,
        found: tuple[FrontierItem, ...] = (),
    ) -> ReadItem:
        """Describe a failure. What a page led to in the last run is read all the same."""
        return ReadItem(
            ItemOutcome.FAILED,
            key=known.key if known else None,
            message=message,
            bytes_read=bytes_read,
            found=(*found, *(self._items(known.links, item) if known else ())),
            problem=f"the first page was not read: {message}" if _is_first(item) else None,
            has_answered=has_answered,
        )

    async def _unread(
        self,
        item: FrontierItem,
        message: str,
        known: KnownItem | None,
        *,
        bytes_read: int = 0,
        found: tuple[FrontierItem, ...] = (),
        is_usual: bool = True,
    ) -> ReadItem:
        """Describe a page that has answered with something else than its text.

        What is stored of it stays. If there is nothing, and sites have such pages, it is left out.
        """
        known = await self._forget_if_deleted(known)
        if known is None and is_usual and not _is_first(item):
            return ReadItem(ItemOutcome.SKIPPED, message=message, bytes_read=bytes_read, found=found)
        if known is not None:
            message += "; its entry stays as it was"
        return self._failed(item, message, known, bytes_read=bytes_read, has_answered=True, found=found)

    async def _forget_if_deleted(self, known: KnownItem | None) -> KnownItem | None:
        """Return what is known of a page; nothing if somebody has deleted its entry, because it will not come back."""
        if known is None or await self._recorder.entries.exists(known.entry_id):
            return known
        await self._recorder.known_items.delete(known.key)
        return None

    async def _fetch(self, url: str, known: KnownItem | None) -> Fetched:
        await self._pace.wait(url)
        fetched = await self._http.fetch(
            url, self._limits, headers=conditional_headers(known), accepts=MEDIA_TYPES_OF_PAGES.__contains__
        )
        self._pace.observe(url, status=fetched.status, headers=fetched.headers)
        return fetched

    async def _read_content(self, item: FrontierItem, fetched: Fetched, known: KnownItem | None) -> ReadItem:
        size = len(fetched.body)
        if fetched.media_type not in MEDIA_TYPES_OF_PAGES:
            if (refresh := read_refresh(fetched.headers.get("refresh", ""))) is not None:
                return await self._follow(item, refresh, known)
            if not read_robots_tags(fetched.robots_tags).index:
                return ReadItem(ItemOutcome.SKIPPED, message=_ASKS_TO_BE_LEFT_OUT)
            return await self._unread(item, "it is no page of text", known)
        signs = PageSigns()
        if fetched.media_type in HTML:
            signs = await asyncio.to_thread(find_page_signs, fetched.body, fetched.headers)
        if signs.refresh is not None and self._leads_elsewhere(item, signs.refresh):
            return await self._follow(item, signs.refresh, known)
        try:
            parsed = await self._parser.parse_page(
                fetched.body, media_type=fetched.media_type, charset=_charset(fetched), name=_name(item.address)
            )
        except ItemUnreadable as unreadable:
            return self._failed(item, str(unreadable), known, bytes_read=size, has_answered=True)
        return await self._record(item, fetched, parsed, signs=signs, known=known)

    async def _record(
        self, item: FrontierItem, fetched: Fetched, parsed: ParsedFile, *, signs: PageSigns, known: KnownItem | None
    ) -> ReadItem:
        web = parsed.web_links or WebLinks()
        tags = read_robots_tags(fetched.robots_tags, signs.robots)
        links = self._links(item.address, web) if web.follow and tags.follow else ()
        found, size = self._items(links, item), len(fetched.body)
        canonical = self._canonical(item.address, web)
        if canonical is not None:
            target = FrontierItem(canonical, depth=item.depth, redirects=item.redirects + 1)
            return ReadItem(ItemOutcome.REDIRECTED, bytes_read=size, found=(target, *found))
        may_be_stored = web.index and tags.index
        frames = self._links(item.address, replace(web, links=signs.frames))
        read = SourceItem(item.address, parsed.document_name, parsed.text, url=item.address)
        if signs.frames and may_be_stored and (signs.is_frameset or not read.text.strip()):
            return await self._read_frames(item, frames, known, bytes_read=size)
        found = (*(FrontierItem(frame, depth=max(item.depth, 1)) for frame in frames), *found)
        is_changed = known is not None and known.digest != read.digest
        stand_in = find_stand_in(read.title, read.text, signs=signs, headers=fetched.headers, replaces=is_changed)
        if stand_in is not None and is_changed and (known := await self._forget_if_deleted(known)) is None:
            stand_in = find_stand_in(read.title, read.text, signs=signs, headers=fetched.headers, replaces=False)
        if stand_in is not None and (known is None or is_changed):
            return await self._unread(
                item, stand_in.reason, known, bytes_read=size, found=found, is_usual=stand_in.is_usual
            )
        if not may_be_stored:
            # Only now: logins and notices of a server ask for it, too, and are not the page.
            return ReadItem(ItemOutcome.SKIPPED, message=_ASKS_TO_BE_LEFT_OUT, bytes_read=size, found=found)
        if known is None and (copied := await self._find_copied(read, web)) is not None:
            target = FrontierItem(copied, depth=item.depth, redirects=item.redirects + 1)
            return ReadItem(ItemOutcome.REDIRECTED, bytes_read=size, found=(target, *found))
        held = HeldItem(read, read_validators(fetched.headers), links[:_MAX_KNOWN_LINKS], parsed.warnings)
        return await self._store(held, known=known, bytes_read=size, found=found)

    async def _read_frames(
        self, item: FrontierItem, frames: tuple[str, ...], known: KnownItem | None, *, bytes_read: int
    ) -> ReadItem:
        """Let the pages be read that a page consists of, in its place."""
        if not frames:
            return await self._unread(
                item,
                "it shows pages in frames that are outside of the source; set the url of the source to one of them",
                known,
                bytes_read=bytes_read,
            )
        found = tuple(FrontierItem(frame, depth=item.depth, redirects=item.redirects + 1) for frame in frames)
        message = "it consists of frames, whose pages are read in its place"
        return ReadItem(ItemOutcome.REDIRECTED, message=message, bytes_read=bytes_read, found=found)

    async def _store(
        self, held: HeldItem, *, known: KnownItem | None, bytes_read: int, found: tuple[FrontierItem, ...]
    ) -> ReadItem:
        """Store a page that is new or unchanged, and hold one that has changed until the others are read."""
        read = ReadItem(
            ItemOutcome.UPDATED,
            key=held.item.key,
            bytes_read=bytes_read,
            found=found,
            warnings=held.warnings,
            text_digest=held.item.text_digest,
            text_before=known.text_state if known else None,
            held=held,
        )
        if known is not None and known.digest != held.item.digest:
            return read
        recorded = await self._recorder.record(
            held.item, known=known, validators=held.validators, links=held.links, warnings=held.warnings
        )
        return replace(read, outcome=recorded.outcome, message=recorded.problem, held=None, has_answered=True)

    async def _follow(self, item: FrontierItem, location: str, known: KnownItem | None) -> ReadItem:
        target = canonical_url(location, base=item.address)
        if target is None or not self._scope.contains(target):
            return await self._unread(item, _explain_redirect(target), known)
        if target == item.address:
            return await self._unread(item, "it redirects to itself; perhaps it needs cookies", known)
        if item.redirects >= MAX_REDIRECTS:
            return await self._unread(item, f"it redirects more than {MAX_REDIRECTS} times", known)
        # The target is an item like others: it is checked, and read once, whatever leads to it.
        found = FrontierItem(target, depth=item.depth, redirects=item.redirects + 1)
        return ReadItem(ItemOutcome.REDIRECTED, found=(found,))

    def _leads_elsewhere(self, item: FrontierItem, refresh: str) -> bool:
        """Return whether a page that is loaded again by itself is another one then."""
        return canonical_url(refresh, base=item.address) != item.address

    def _links(self, url: str, web: WebLinks) -> tuple[str, ...]:
        """Return the pages of the source that a page links to."""
        base = (canonical_url(web.base, base=url) if web.base else None) or url
        found = (canonical_url(link, base=base) for link in web.links)
        return tuple(dict.fromkeys(link for link in found if link and link != url and self._scope.contains(link)))

    def _canonical(self, url: str, web: WebLinks) -> str | None:
        """Return the address that a page should have, if it is this page with other parameters.

        Some sites name their first page in each page by mistake, and would have a single entry.
        """
        canonical = canonical_url(web.canonical, base=url) if web.canonical else None
        if canonical is None or canonical == url or not self._scope.contains(canonical):
            return None
        return canonical if _without_parameters(canonical) == _without_parameters(url) else None

    async def _find_copied(self, read: SourceItem, web: WebLinks) -> str | None:
        """Return the address of a stored page that a new one only repeats, under another spelling or as it says."""
        named = canonical_url(web.canonical, base=read.key) if web.canonical else None
        for address in filter(None, (named, *other_spellings(read.key))):
            stored = await self._recorder.known_items.find(address) if address != read.key else None
            if stored is not None and stored.digest == read.digest:
                return address
        return None

    def _items(self, links: Iterable[str], item: FrontierItem) -> tuple[FrontierItem, ...]:
        if item.depth >= self._depth:
            return ()
        return tuple(FrontierItem(link, depth=item.depth + 1) for link in links)


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
