"""`python -m benchmarks.mixed_load`: calls of all kinds for a minute, while mongod stands still for five seconds.

Calls arrive at random times (a Poisson process), whether earlier ones have been answered or not: searches, runs, lists
and reads, new documents, tags and deletions. In the middle of the run mongod is frozen, or killed and started again.

The exit status is 1 unless

- every failure was a 503 with Retry-After (a caller can't tell another 5xx from a lost change);
- every acknowledged change is there afterwards, every new document is searchable, and no deleted one is;
- calls succeed again without the restart of any service.
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import aiohttp
import psutil

from benchmarks.indexed_corpus import folder_for
from benchmarks.load.arrivals import poisson_times
from benchmarks.load.open_loop import OpenLoop
from benchmarks.load.statistics import CallStatistics
from benchmarks.load.target import WITHOUT_LIMITS
from kb_local.stack import Stack
from tests.waiting import until

TAG: Final = "mixed"
PRELOADED: Final = 50
SETTLED_WITHIN_S: Final = 120.0
FAULTS: Final = ("freeze", "kill")
_TIMEOUT_S: Final = 60.0
_UPLOADED: Final = "2026-01-31T12:00:00Z"
_UNAVAILABLE: Final = 503
_CONFLICT: Final = 409
"""One of two changes at once may be refused."""
_WEIGHTS: Final[Mapping[str, float]] = {
    "search": 8,
    "add document": 4,
    "change tags": 2,
    "delete document": 1,
    "put tag": 1,
    "run": 0.5,
    "get document": 3,
    "list documents": 1,
    "list knowledge bases": 1,
    "get statistics": 0.5,
    "get usage": 0.5,
}


@dataclass(frozen=True, slots=True)
class ReceivedAnswer:
    """An answer to a call, or the reason why there is none.

    Attributes:
        status: HTTP status; 0 if the connection failed.
        slug: `type` of the problem, or the name of the error of the connection; empty after success.
    """

    status: int
    slug: str = ""
    has_retry_after: bool = False
    body: Any = None

    @property
    def is_success(self) -> bool:
        return self.status in (200, 201, 202)

    @property
    def is_unavailable(self) -> bool:
        return self.status == _UNAVAILABLE and self.has_retry_after

    @property
    def is_allowed(self) -> bool:
        """Say whether a caller knows what to do: nothing, or to send the same request later."""
        return self.is_success or self.is_unavailable or self.status == _CONFLICT


@dataclass(slots=True)
class AcknowledgedChanges:
    """Changes that must be in effect when the load is over. One without an answer may be in effect or not."""

    documents: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)
    tags_of_documents: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The additional tag of a document, and the revision that set it."""

    def tagged(self, document_id: str, tag_id: str, revision: int) -> None:
        """Keep the change with the greatest revision: it wins, in whatever order the answers come."""
        if revision > self.tags_of_documents.get(document_id, ("", 0))[1]:
            self.tags_of_documents[document_id] = (tag_id, revision)


@dataclass(slots=True)
class MixedLoad:
    """Calls of all kinds to one knowledge base."""

    http: aiohttp.ClientSession
    base_url: str
    kb_id: str
    dice: random.Random
    changes: AcknowledgedChanges = field(default_factory=AcknowledgedChanges)
    calls: dict[str, CallStatistics] = field(default_factory=lambda: defaultdict(CallStatistics))
    not_allowed: Counter[str] = field(default_factory=Counter)
    """Failures that are neither a 503 with Retry-After nor a conflict, by call and reason."""
    last_failure_at: float | None = None
    _number: int = 0

    async def act(self, due: float) -> None:
        [kind] = self.dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        answer = await self._kinds[kind]()
        if answer.is_success:
            self.calls[kind].latencies.record(perf_counter() - due)
            return
        reason = f"{answer.status} {answer.slug}".strip()
        self.calls[kind].errors[reason] += 1
        self.last_failure_at = perf_counter()
        if not answer.is_allowed:
            self.not_allowed[f"{kind}: {reason}"] += 1

    @property
    def _kinds(self) -> Mapping[str, Callable[[], Awaitable[ReceivedAnswer]]]:
        return {
            "search": self._search,
            "add document": self._add_document,
            "change tags": self._change_tags,
            "delete document": self._delete_document,
            "put tag": self._put_tag,
            "run": self._run,
            "get document": lambda: self.send("GET", f"/documents/{self._preloaded()}"),
            "list documents": lambda: self.send("GET", f"/documents?tag_id={TAG}&limit=20"),
            "list knowledge bases": lambda: self.send("GET", "/knowledge-bases"),
            "get statistics": lambda: self.send("GET", f"/knowledge-bases/{self.kb_id}/stats"),
            "get usage": lambda: self.send("GET", "/usage"),
        }

    async def send(self, method: str, path: str, body: Any = None) -> ReceivedAnswer:
        try:
            async with self.http.request(method, f"{self.base_url}{path}", json=body) as response:
                received = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return ReceivedAnswer(0, type(error).__name__)
        slug = "" if response.ok else str(received.get("type", ""))
        return ReceivedAnswer(response.status, slug, "Retry-After" in response.headers, received)

    async def put_document(self, document_id: str) -> ReceivedAnswer:
        body = {
            "document_name": f"{document_id}.txt",
            "upload_date": _UPLOADED,
            "tag_ids": [TAG],
            "text": f"The river {document_id} flows past {self.dice.randrange(1_000)} mills.",
        }
        return await self.send("PUT", f"/documents/{document_id}", body)

    async def _search(self) -> ReceivedAnswer:
        mode = self.dice.choice(["hybrid", "hybrid", "text", "vector"])
        body = {"query": f"river {self.dice.randrange(50)}", "mode": mode}
        return await self.send("POST", f"/knowledge-bases/{self.kb_id}/search", body)

    async def _add_document(self) -> ReceivedAnswer:
        document_id = self._next("added")
        answer = await self.put_document(document_id)
        if answer.is_success:
            self.changes.documents.add(document_id)
        return answer

    async def _change_tags(self) -> ReceivedAnswer:
        document_id, tag_id = self._preloaded(), self._next("tag-of")
        answer = await self.send("PATCH", f"/documents/{document_id}/tags", {"tag_ids": [TAG, tag_id]})
        if answer.is_success:
            self.changes.tagged(document_id, tag_id, answer.body["revision"])
        return answer

    async def _delete_document(self) -> ReceivedAnswer:
        if not self.changes.documents:
            return await self._add_document()
        document_id = self.dice.choice(sorted(self.changes.documents))
        # From here on it may be gone, whatever the answer is.
        self.changes.documents.remove(document_id)
        answer = await self.send("DELETE", f"/documents/{document_id}")
        if answer.is_success:
            self.changes.deleted.add(document_id)
        return answer

    async def _put_tag(self) -> ReceivedAnswer:
        tag_id = self._next("tag")
        answer = await self.send("POST", "/tags", {"tag_id": tag_id, "name": tag_id})
        if answer.is_success:
            self.changes.tags.add(tag_id)
        return answer

    async def _run(self) -> ReceivedAnswer:
        body = {"messages": [{"role": "user", "content": "Which rivers are there?"}], "kb_id": self.kb_id}
        return await self.send("POST", "/runs", body)

    def _preloaded(self) -> str:
        return f"preloaded-{self.dice.randrange(PRELOADED)}"

    def _next(self, name: str) -> str:
        self._number += 1
        return f"{name}-{self._number}"

    async def find_lost_changes(self) -> list[str]:
        """Return what was acknowledged and is not there; waits for what is still being worked on."""
        lost = []
        for document_id in sorted(self.changes.documents):
            path = f"/documents/{document_id}?wait=searchable&timeout_s=30"
            answer = await self._until_answered(path)
            if not (answer.is_success and answer.body["searchable"]):
                lost.append(f"document {document_id} is not searchable")
        for document_id in sorted(self.changes.deleted):
            answer = await self._until_answered(f"/documents/{document_id}")
            if answer.is_success and (answer.body["alive"] or answer.body["knowledge_bases"]):
                lost.append(f"document {document_id} is not deleted")
        for tag_id in sorted(self.changes.tags):
            answer = await self._until_answered(f"/tags?name_search={tag_id}&limit=100")
            if tag_id not in [tag["tag_id"] for tag in answer.body["tags"]]:
                lost.append(f"tag {tag_id} does not exist")
        for document_id, (tag_id, revision) in sorted(self.changes.tags_of_documents.items()):
            answer = await self._until_answered(f"/documents/{document_id}")
            has_later = answer.body["tags_revision"] > revision
            if not has_later and tag_id not in answer.body["tag_ids"]:
                lost.append(f"document {document_id} does not have the tag {tag_id}")
        return lost

    async def _until_answered(self, path: str) -> ReceivedAnswer:
        answers: list[ReceivedAnswer] = []

        async def is_answered() -> bool:
            answers.append(await self.send("GET", path))
            return not answers[-1].is_unavailable

        await until(is_answered, what=f"an answer of {path}", within_s=SETTLED_WITHIN_S, every_s=0.2)
        return answers[-1]

    async def until_nothing_waits(self) -> None:
        """Wait until the indexers have done all that they know of."""

        async def is_done() -> bool:
            answer = await self.send("GET", f"/knowledge-bases/{self.kb_id}/documents?status=all&limit=1")
            pending = await self.send("GET", f"/knowledge-bases/{self.kb_id}/documents?status=pending&limit=1")
            return answer.is_success and pending.is_success and pending.body["total_count"] == 0

        await until(is_done, what="no document is pending", within_s=SETTLED_WITHIN_S, every_s=0.5)


def main() -> None:
    options = _options()
    with folder_for(options.keep) as folder:
        figures = asyncio.run(_run(folder, options))
    print(json.dumps(figures, indent=2))
    sys.exit(0 if figures["passed"] else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mixed_load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60, help="time of the load (default: 60)")
    parser.add_argument("--calls-per-s", type=float, default=20, help="(default: 20)")
    parser.add_argument("--fault", choices=FAULTS, default="freeze", help="what happens to mongod (default: freeze)")
    parser.add_argument("--fault-s", type=float, default=5, help="seconds without mongod (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (default: 1)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for the local stack, which is kept")
    return parser.parse_args()


async def _run(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with Stack(folder, env=WITHOUT_LIMITS) as stack, _session(stack.api_key) as http:
        base_url = f"{stack.base_url}/v0/orgs/{stack.organization_id}"
        load = await _prepare(http, base_url, random.Random(options.seed))
        processes = {name: server.pid for name, server in stack.services.items()}
        times = poisson_times(options.calls_per_s, seconds=options.seconds, dice=random.Random(f"{options.seed}/times"))
        loop = OpenLoop(max_in_flight=10_000)
        began = perf_counter()
        fault = asyncio.create_task(_break_mongod(stack, options, at_s=options.seconds / 2))
        await loop.run(times, load.act, began=began)
        over_at = await fault
        await load.until_nothing_waits()
        lost = await load.find_lost_changes()
        restarted = [name for name, pid in processes.items() if not psutil.pid_exists(pid)]
        recovery_s = max(0.0, (load.last_failure_at or over_at) - over_at)
        return {
            "passed": not (load.not_allowed or lost or restarted),
            "options": {name: str(value) for name, value in vars(options).items() if value is not None},
            "calls": loop.begun,
            "failures_that_are_not_allowed": dict(load.not_allowed),
            "lost_changes": lost,
            "restarted": restarted,
            "last_failure_after_the_fault_s": round(recovery_s, 2),
            "acknowledged": {
                "documents": len(load.changes.documents),
                "deletions": len(load.changes.deleted),
                "tags": len(load.changes.tags),
                "tags of documents": len(load.changes.tags_of_documents),
            },
            "generator": loop.figures(),
            "by_call": {
                name: each.figures(arrived_in_s=options.seconds, answered_in_s=options.seconds)
                for name, each in sorted(load.calls.items())
            },
        }


async def _prepare(http: aiohttp.ClientSession, base_url: str, dice: random.Random) -> MixedLoad:
    """Create a knowledge base with some documents, and wait until they are searchable."""
    load = MixedLoad(http, base_url, "", dice)
    await load.send("POST", "/tags", {"tag_id": TAG, "name": TAG})
    created = await load.send("POST", "/knowledge-bases", {"name": TAG, "tag_ids": [TAG]})
    load.kb_id = created.body["kb_id"]
    for number in range(PRELOADED):
        document_id = f"preloaded-{number}"
        await load.put_document(document_id)
        load.changes.documents.add(document_id)
    if missing := await load.find_lost_changes():
        raise RuntimeError(f"before the load: {missing}")
    load.changes.documents.clear()
    return load


async def _break_mongod(stack: Stack, options: argparse.Namespace, *, at_s: float) -> float:
    """Return the time at which mongod works again."""
    await asyncio.sleep(at_s)
    mongod = stack.server("mongod")
    if options.fault == "freeze":
        await mongod.pause()
        await asyncio.sleep(options.fault_s)
        mongod.resume()
    else:
        await mongod.kill()
        await asyncio.sleep(options.fault_s)
        await mongod.start()
    return perf_counter()


def _session(api_key: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
        headers={"Authorization": f"Bearer {api_key}"},
    )


if __name__ == "__main__":
    main()
