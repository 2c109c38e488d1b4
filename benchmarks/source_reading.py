"""Sources that a benchmark lets the runner read: a web site of 200 pages, and a PDF of several megabytes."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psutil

from benchmarks.indexing import corpus
from benchmarks.indexing.system import until
from tests.integration.knowledge.sources.web_site import PAGES, WebSite, serve_site
from tests.unit.client.files.pdf_files import assemble

_WORDS_OF_A_PAGE = 1_000
_PAGES_OF_PDF = 150
_LINES_OF_A_PAGE = 15
_PICTURE_PIXELS = 2_400


@dataclass(slots=True)
class ChildrenUsage:
    """Greatest resident memory of all children of a process together, and the CPU that they have used."""

    memory_mib: int = 0
    cpu_s: float = 0.0


@asynccontextmanager
async def watched_children(pid: int) -> AsyncIterator[ChildrenUsage]:
    """Look at the children of a process ten times a second."""
    usage, cpu_s_of = ChildrenUsage(), dict[int, float]()

    async def watch() -> None:
        while True:
            resident = 0
            for child in psutil.Process(pid).children(recursive=True):
                try:
                    resident += child.memory_info().rss
                    times = child.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                cpu_s_of[child.pid] = times.user + times.system
            usage.memory_mib = max(usage.memory_mib, resident // 1024**2)
            usage.cpu_s = sum(cpu_s_of.values())
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    try:
        yield usage
    finally:
        watching.cancel()


async def read_sources(http: httpx.AsyncClient) -> None:
    """Let the runner read a web site and a PDF at the same time, and wait for the end of both runs."""
    async with serve_site(WebSite(pages=PAGES - 1)) as site:
        site.texts.update(enumerate(corpus.texts(documents=PAGES - 1, words=_WORDS_OF_A_PAGE)))
        uploaded = await http.post("/knowledge-sources/files?filename=manual.pdf", content=_large_pdf())
        file_id = uploaded.raise_for_status().json()["file_id"]
        sources: list[dict[str, Any]] = [
            {"label": "Site", "kind": "url_crawl", "config": {"url": site.url}},
            {"label": "Manual", "kind": "file_upload", "config": {"filename": "manual.pdf", "file_id": file_id}},
        ]
        source_ids = [
            (await http.post("/knowledge-sources", json=each)).raise_for_status().json()["source_id"]
            for each in sources
        ]
        for source_id in source_ids:
            (await http.post(f"/knowledge-sources/{source_id}/run")).raise_for_status()

        async def are_read() -> bool:
            await asyncio.sleep(0.5)
            shown = [
                (await http.get(f"/knowledge-sources/{source_id}")).raise_for_status().json()
                for source_id in source_ids
            ]
            if failed := [each["last_run_error"] for each in shown if each["last_run_status"] not in (None, "ok")]:
                raise RuntimeError(failed[0])
            return all(each["last_run_status"] for each in shown)

        await until(are_read)


def _large_pdf() -> bytes:
    """Return a PDF of text, with a picture of 5.8 MB on its first page."""
    dice = random.Random(0)
    texts = corpus.texts(documents=_PAGES_OF_PDF, words=160)
    contents = [_page(text, with_picture=number == 0) for number, text in enumerate(texts)]
    pixels = dice.randbytes(_PICTURE_PIXELS**2)
    picture = (
        b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "
        b"/Length %d >> stream\n%s\nendstream" % (_PICTURE_PIXELS, _PICTURE_PIXELS, len(pixels), pixels)
    )
    return assemble(contents, objects=[picture])


def _page(text: str, *, with_picture: bool) -> bytes:
    words = "".join(filter(lambda character: character.isalnum() or character in " .", text)).split()
    size = -(-len(words) // _LINES_OF_A_PAGE)
    lines = [" ".join(words[start : start + size]) for start in range(0, len(words), size)]
    shown = "\n".join(f"1 0 0 1 72 {720 - 20 * number} Tm ({line}) Tj" for number, line in enumerate(lines))
    return (b"q 500 0 0 500 50 50 cm /X0 Do Q\n" if with_picture else b"") + f"BT /F1 9 Tf\n{shown}\nET".encode()
