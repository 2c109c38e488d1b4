"""`python -m benchmarks.console_pages`: the CPU that a page costs the console.

A local stack gets the example data of the tests of the console, and a crawler finds an address of each page. Then
each one is read `--requests` times, and the CPU of the console's process is divided by them. The goal is 20 ms for
each page.
"""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any, Final

from starlette.routing import Match

from benchmarks import command
from benchmarks.machine import loop_s
from kb_console.bootstrap import ROUTERS
from kb_console.chat.conversations import TURNS
from kb_local.stack import Stack
from tests.console.console_under_test import ConsoleUnderTest
from tests.console.crawler import ConsoleCrawler, SignedInReader
from tests.console.example_data import make_examples, serve_site

SERVICES: Final = ("kb_api", "kb_indexer", "kb_search", "kb_knowledge", "kb_knowledge.runner", "kb_console")
GOAL_MS: Final = 20.0
_CONSOLE: Final = "console"
_OF_A_ROUTE: Final = 2
"""Addresses that are measured of each route: they differ in their filters or in what they show."""
_SHOWN: Final = 10


def main() -> None:
    parser = command.parser("console_pages", __doc__)
    parser.add_argument("--requests", type=int, default=10, help="of each page")
    parser.add_argument("--documents", type=int, default=60, help="besides the examples, so that lists are full")
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    settings = {"KB_EMBEDDING_MODEL": "hash-64", "KB_ALLOW_PRIVATE_ADDRESSES": "true"}
    async with Stack(folder, services=SERVICES, env=settings) as stack:
        [pid] = [server.pid for server in stack.servers if _CONSOLE in server.name]
        console = ConsoleUnderTest(stack.base_url, stack.api_key, stack.models_api_base)
        before = loop_s()
        by_page = await asyncio.to_thread(_measure_pages, console, pid, options)
    costs = sorted(by_page.values())
    slowest = sorted(by_page.items(), key=lambda each: -each[1])[:_SHOWN]
    return {
        "pages": len(costs),
        "mean_ms": round(fmean(costs), 1),
        "p95_ms": round(quantiles(costs, n=20)[-1], 1),
        "max_ms": costs[-1],
        "above_goal": sum(cost > GOAL_MS for cost in costs),
        "most_expensive_ms": dict(slowest),
        "machine_loop_s": [before, loop_s()],
    }


def _measure_pages(console: ConsoleUnderTest, pid: int, options: argparse.Namespace) -> dict[str, float]:
    with serve_site() as site:
        make_examples(console, site=site)
        for number in range(options.documents):
            about = {"document_name": f"{number}.md", "tag_ids": ["manuals"], "upload_date": "2026-01-31T12:00:00Z"}
            console.call("PUT", f"/documents/{number}", {**about, "text": f"# Part {number}\n\nDescale the pump."})
        _fill_conversation(console)
        reader = SignedInReader(console.base_url, api_key=console.api_key)
        found = ConsoleCrawler(reader).run("/console/")
    return {
        address: _cpu_ms_of(reader, address, pid, requests=options.requests)
        for addresses in _by_route(found.seconds).values()
        for address in addresses[:_OF_A_ROUTE]
    }


def _fill_conversation(console: ConsoleUnderTest) -> None:
    """Ask in one conversation as many questions as a page of it shows."""
    thread_id = console.call("POST", "/threads", {"title": "How do I descale the pump?"})["thread_id"]
    kb_ids = [kb["kb_id"] for kb in console.call("GET", "/knowledge-bases")["knowledge_bases"]]
    for number in range(TURNS):
        messages = [{"role": "user", "content": f"How do I descale the pump of part {number}?"}]
        console.call("POST", "/runs", {"thread_id": thread_id, "kb_ids": kb_ids, "messages": messages})


def _by_route(addresses: Iterable[str]) -> Mapping[str, list[str]]:
    """Return the addresses of each route of the console, those with the most parameters first."""
    routes = [route for router in ROUTERS for route in router.routes]
    found: dict[str, list[str]] = defaultdict(list)
    for address in sorted(addresses, key=lambda each: -each.count("=")):
        scope = {"type": "http", "method": "GET", "path": address.partition("?")[0], "headers": []}
        matching = next((route for route in routes if route.matches(scope)[0] is Match.FULL), None)
        if matching is not None:
            found[getattr(matching, "path", "")].append(address)
    return found


def _cpu_ms_of(reader: SignedInReader, address: str, pid: int, *, requests: int) -> float:
    reader.get(address)
    before = _cpu_ns(pid)
    for _ in range(requests):
        reader.get(address)
    return round((_cpu_ns(pid) - before) / requests / 1e6, 1)


def _cpu_ns(pid: int) -> int:
    """Return the time that the threads of a process have run, which `/proc/PID/stat` only knows in steps of 10 ms."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


if __name__ == "__main__":
    main()
