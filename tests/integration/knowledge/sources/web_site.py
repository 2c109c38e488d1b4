"""A web site of 200 pages with a log of requests, and with traps for crawlers."""

import asyncio
import gzip
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PAGES = 200
ROBOTS = "User-agent: *\nDisallow: /private\nSitemap: /sitemap.xml\n"
BOMB = gzip.compress(bytes(30_000_000))


@dataclass
class WebSite:
    """Answers like a site; tests change what it has."""

    port: int = 0
    pages: int = PAGES
    log: list[str] = field(default_factory=list)
    conditional: list[str] = field(default_factory=list)
    """Paths that were asked for with `If-None-Match` or `If-Modified-Since`."""
    agents: set[str] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    texts: dict[int, str] = field(default_factory=dict)
    home_links: list[str] = field(default_factory=list)
    """Further links of the first page."""
    status: int | None = None
    """Status of each answer."""
    moved_to: str | None = None
    """Address to which each page redirects."""
    robots: str = ROBOTS
    robots_status: int = 200
    hold: asyncio.Event | None = None
    """Pages wait for it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def requested(self) -> Counter[str]:
        return Counter(self.log)

    def text(self, number: int) -> str:
        return self.texts.get(number, f"What page {number} says about subject {number * 7}.")

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._log])
        app.router.add_get("/robots.txt", self._robots)
        app.router.add_get("/sitemap.xml", self._sitemap)
        app.router.add_get("/", self._home)
        app.router.add_get("/page/{number}", self._page)
        app.router.add_get("/moved/{number}", _moved)
        app.router.add_get("/trap/calendar", self._calendar)
        for name, trap in TRAPS.items():
            app.router.add_get(f"/trap/{name}", trap)
        return app

    @web.middleware
    async def _log(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.log.append(request.path_qs)
        self.agents.add(request.headers["User-Agent"])
        assert "Cookie" not in request.headers
        if self.status is not None and request.path != "/robots.txt":
            return web.Response(status=self.status)
        if self.moved_to is not None and request.path not in ("/robots.txt", "/sitemap.xml"):
            return web.Response(status=301, headers={"Location": self.moved_to})
        return await handler(request)

    async def _robots(self, _request: web.Request) -> web.Response:
        return web.Response(text=self.robots, status=self.robots_status)

    async def _home(self, _request: web.Request) -> web.Response:
        return html("Home", "Welcome.", [f"/page/{n}" for n in range(self.pages // 2)] + self.home_links)

    async def _sitemap(self, _request: web.Request) -> web.Response:
        locations = "".join(f"<url><loc>{self.url}page/{n}</loc></url>" for n in range(self.pages // 2, self.pages))
        urlset = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locations}</urlset>'
        return web.Response(text=urlset, content_type="application/xml")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        number = int(request.match_info["number"])
        if self.hold is not None:
            await self.hold.wait()
        if number in self.gone or number >= self.pages:
            return web.Response(status=404)
        text = self.text(number)
        etag = hashlib.sha256(text.encode()).hexdigest()[:16]
        if asked := request.headers.get("If-None-Match"):
            self.conditional.append(request.path)
            if number % 2 == 0 and asked == f'"{etag}"':
                return web.Response(status=304)
        page = html(f"Page {number}", text, ["/", f"/page/{(number + 1) % self.pages}#top"])
        if number % 2 == 0:
            page.headers["ETag"] = f'"{etag}"'
        page.set_cookie("session", "secret")
        return page

    async def _calendar(self, request: web.Request) -> web.StreamResponse:
        month = int(request.query.get("month", "0"))
        links = [f"?month={month + step}&sessionid={step}{month}" for step in range(1, 4)]
        return html(f"Month {month}", f"Nothing happens in month {month}.", links)


async def _moved(request: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently(f"/page/{request.match_info['number']}?utm_source=moved")


async def _stream(request: web.Request, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/html"})
    await answer.prepare(request)
    async for piece in pieces:
        await answer.write(piece)
    return answer


async def _drip() -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await asyncio.sleep(0.05)


async def _gigabyte() -> AsyncIterator[bytes]:
    for _ in range(16_000):
        yield bytes(65_536)


async def _slow(request: web.Request) -> web.StreamResponse:
    return await _stream(request, _drip())


async def _huge(request: web.Request) -> web.StreamResponse:
    return await _stream(request, _gigabyte())


async def _bomb(_request: web.Request) -> web.Response:
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip", "Content-Type": "text/html"})


async def _latin(_request: web.Request) -> web.Response:
    body = "<title>Grüße</title><p>Straße und Öl".encode("iso-8859-1")
    return web.Response(body=body, headers={"Content-Type": "text/html; charset=iso-8859-1"})


async def _loop(request: web.Request) -> web.Response:
    raise web.HTTPFound("/trap/loop" if "again" in request.query else "/trap/loop?again=1")


async def _metadata(_request: web.Request) -> web.Response:
    raise web.HTTPFound("http://169.254.169.254/latest/meta-data/")


async def _deep(_request: web.Request) -> web.Response:
    return web.Response(text="<div>" * 30_000 + "deep", content_type="text/html")


async def _image(_request: web.Request) -> web.Response:
    return web.Response(body=b"\x89PNG", content_type="image/png")


async def _login(_request: web.Request) -> web.Response:
    return web.Response(status=403)


TRAPS: Final[Mapping[str, Handler]] = {
    "slow": _slow,
    "huge": _huge,
    "bomb": _bomb,
    "latin": _latin,
    "loop": _loop,
    "metadata": _metadata,
    "deep": _deep,
    "image": _image,
    "login": _login,
}


def html(title: str, text: str, links: Sequence[str]) -> web.Response:
    anchors = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    head = f"<html><head><title>{title}</title></head>"
    page = f"{head}<body><nav>{anchors}</nav><h1>{title}</h1><p>{text}</p></body></html>"
    return web.Response(text=page, content_type="text/html")


@asynccontextmanager
async def serve_site(site: WebSite) -> AsyncIterator[WebSite]:
    runner = web.AppRunner(site.app(), shutdown_timeout=0)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", site.port)
    await listener.start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        if site.hold is not None:
            site.hold.set()
        await runner.cleanup()
