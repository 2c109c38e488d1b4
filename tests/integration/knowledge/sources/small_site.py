"""A web site of a few pages, each of which a test writes as a server would send it."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class SentPage:
    body: bytes | str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": HTML})


def page(title: str, text: str, *links: str, head: str = "") -> SentPage:
    """Return a page with a paragraph for each line of `text`."""
    anchors = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    paragraphs = "".join(f"<p>{line}</p>" for line in text.splitlines())
    return SentPage(
        f"<!doctype html><html><head><title>{title}</title>{head}</head><body><main><h1>{title}</h1>{paragraphs}</main>"
        f"<nav>{anchors}</nav></body></html>"
    )


def moved(location: str, status: int = 302) -> SentPage:
    return SentPage(status=status, headers={"Location": location})


@dataclass
class SmallSite:
    """Answers with its pages, by path; an answer has an ETag, and one that is known is not sent again."""

    pages: dict[str, SentPage] = field(default_factory=dict)
    otherwise: SentPage = field(default_factory=lambda: SentPage(status=404))
    """Answer for other paths."""
    port: int = 0
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def answer(self, request: web.Request) -> web.Response:
        self.log.append(request.path_qs)
        found = self.pages.get(request.path_qs, self.otherwise)
        body = found.body.encode() if isinstance(found.body, str) else found.body
        headers = dict(found.headers)
        if found.status == 200:
            headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return web.Response(status=304, headers={"ETag": headers["ETag"]})
        answer = web.Response(status=found.status, body=body, headers=headers)
        if "Content-Type" not in headers:
            # The library would name a type.
            answer.headers["Content-Type"] = ""
        return answer


@asynccontextmanager
async def serve_small_site(site: SmallSite) -> AsyncIterator[SmallSite]:
    app = web.Application()
    app.router.add_get("/{path:.*}", site.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()
