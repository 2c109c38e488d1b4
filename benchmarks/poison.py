"""`python -m benchmarks.poison`: what unusable records among the events cost, and what becomes of them.

Rounds without poison and with it take turns, because the speed of the machine changes. `ratio` is the throughput with
poison relative to that without it. Then each unusable record must be a dead letter, and each whose organization can be
told must be announced once.
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.raw_records import RawHeaders, RawRecords, raw_records
from benchmarks.indexing.system import System, add_options, running_system, until
from kb_contracts.cloudevents import encode
from kb_contracts.documents import key_of
from kb_contracts.topics import KB_EVENTS
from kb_shared.kafka_connection.clients import consumer_client
from kb_shared.mongo import dead_letters, document_index, outbox

TAG: Final = "poisoned"
SOURCE: Final = "/benchmark"
_LARGE: Final = 1_020_000
_ALL_COME_S: Final = 120.0
_NO_MORE_COMES_S: Final = 5.0


class Poison(NamedTuple):
    """Record that can't be used."""

    key: bytes | None
    value: bytes | None
    headers: RawHeaders = ()


def main() -> None:
    parser = command.parser("poison", __doc__)
    parser.add_argument("--events", type=int, default=5_000, help="documents without poison, and as many with it")
    parser.add_argument("--rounds", type=int, default=5, help="of either")
    parser.add_argument("--percent", type=float, default=1.0, help="of poison")
    add_options(parser, words=60, dims=64)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with running_system(folder, options) as system, raw_records(system) as records:
        kb_id = await system.create_knowledge_base(TAG, options)
        benchmark = _PoisonBenchmark(system, records, kb_id, options)
        # The first documents find connections unmade and code not yet imported.
        await benchmark.run_pass("warm-up", documents=100, poison=0)
        documents = options.events // options.rounds
        poison = round(documents * options.percent / 100)
        clean_s, poisoned_s = [], []
        for number in range(options.rounds):
            clean_s.append(await benchmark.run_pass(f"clean-{number}", documents=documents, poison=0))
            poisoned_s.append(await benchmark.run_pass(f"poisoned-{number}", documents=documents, poison=poison))
        refusals = await _count_refusals(system)
    return {
        "clean_documents_per_s": [round(documents / seconds, 1) for seconds in clean_s],
        "poisoned_documents_per_s": [round(documents / seconds, 1) for seconds in poisoned_s],
        "ratio": round(sum(clean_s) / sum(poisoned_s), 3),
        "lost_events": benchmark.lost,
        "poison": poison * options.rounds,
        **refusals,
    }


class _PoisonBenchmark:
    def __init__(self, system: System, records: RawRecords, kb_id: str, options: argparse.Namespace) -> None:
        self.lost = 0
        self._system = system
        self._records = records
        self._kb_id = kb_id
        self._options = options
        self._first_text = count(step=options.events)
        self._poison = count()
        self._indexed = 0

    async def run_pass(self, name: str, *, documents: int, poison: int) -> float:
        """Index documents, with poison among them; return the seconds until all are indexed."""
        texts = corpus.texts(documents=documents, words=self._options.words, first=next(self._first_text))
        events = [self._system.event(f"{name}-{n}", text, tag_id=TAG) for n, text in enumerate(texts)]
        good = [Poison(key_of(event), encode(event, source=SOURCE)) for event in events]
        written = good + [_poison_of(self._system.stack.organization_id, next(self._poison)) for _ in range(poison)]
        random.Random(0).shuffle(written)
        began = monotonic()
        await asyncio.gather(
            *[await self._records.write(each.key, each.value, headers=each.headers) for each in written]
        )
        self._indexed += documents
        await until(self._is_indexed)
        seconds = monotonic() - began
        await until(self._records.are_finished)
        missing = self._indexed - await self._count_indexed()
        self.lost += missing
        self._indexed -= missing
        print(f"{name}: {documents / seconds:.1f} documents a second", file=sys.stderr, flush=True)
        return seconds

    async def _is_indexed(self) -> bool:
        await asyncio.sleep(0.2)
        return await self._count_indexed() == self._indexed or await self._records.are_finished()

    async def _count_indexed(self) -> int:
        rows = self._system.mongod[self._system.stack.database][document_index.NAME]
        indexed: int = await rows.count_documents({"kb_id": self._kb_id})
        return indexed


async def _count_refusals(system: System) -> dict[str, Any]:
    """Count dead letters by reason, and how often each of them was announced."""
    rows = system.mongod[system.stack.database][dead_letters.NAME]
    letters = [row async for row in rows.find({}, {"organization_id": 1, "reason": 1})]
    announced = await _count_announcements(system)
    with_owner = {row["_id"] for row in letters if row["organization_id"] is not None}
    return {
        "dead_letters": len(letters),
        "reasons": dict(Counter(row["reason"] for row in letters)),
        "of_known_organizations": len(with_owner),
        "announced_once": sum(announced[letter_id] == 1 for letter_id in with_owner),
        "not_announced": sum(announced[letter_id] == 0 for letter_id in with_owner),
        "announced_more_often": sum(times > 1 for times in announced.values()),
    }


async def _count_announcements(system: System) -> Counter[str]:
    """Read `kb-events` to their end, and count `document.rejected.v1` by dead letter."""
    announced: Counter[str] = Counter()
    sent = system.mongod[system.stack.database][outbox.NAME]
    missing: int = await sent.count_documents({"topic": KB_EVENTS.name})
    client = consumer_client(system.stack.kafka_connection, KB_EVENTS.name, auto_offset_reset="earliest")
    await client.start()
    try:
        last = monotonic()
        # What is sent twice comes after all others.
        while monotonic() - last < (_ALL_COME_S if missing > 0 else _NO_MORE_COMES_S):
            for batch in (await client.getmany(timeout_ms=500)).values():
                last = monotonic()
                missing -= len(batch)
                for event in map(json.loads, (record.value for record in batch)):
                    if event["type"] == "document.rejected.v1":
                        announced[event["data"]["dead_letter_id"]] += 1
    finally:
        await client.stop()
    return announced


def _poison_of(organization_id: str, number: int) -> Poison:
    """Return an unusable record; the kinds take turns."""
    kinds = list(_KINDS.values())
    return kinds[number % len(kinds)](organization_id, f"poison-{number}")


def _event(organization_id: str, document_id: str, **fields: Any) -> bytes:
    data = {"organization_id": organization_id, "document_id": document_id, "revision": 1}
    envelope: dict[str, Any] = {
        "specversion": "1.0",
        "id": document_id,
        "source": SOURCE,
        "type": "document.deleted.v1",
        "time": "2026-01-01T00:00:00Z",
        "data": data | fields.pop("data", {}),
    }
    return json.dumps(envelope | fields).encode()


def _key(organization_id: str, document_id: str) -> bytes:
    return f"{organization_id}/{document_id}".encode()


def _with_value(value: Callable[[str, str], bytes | None]) -> Callable[[str, str], Poison]:
    return lambda organization_id, document_id: Poison(
        _key(organization_id, document_id), value(organization_id, document_id)
    )


def _with_data(**data: Any) -> Callable[[str, str], Poison]:
    return _with_value(lambda organization_id, document_id: _event(organization_id, document_id, data=data))


_KINDS: Final[Mapping[str, Callable[[str, str], Poison]]] = {
    "tombstone": _with_value(lambda _organization, _document: None),
    "empty": _with_value(lambda _organization, _document: b""),
    "cut off": _with_value(lambda *ids: _event(*ids)[:-20]),
    "binary": _with_value(lambda _organization, document: random.Random(document).randbytes(300)),
    "JSON null": _with_value(lambda _organization, _document: b"null"),
    "batch": _with_value(lambda *ids: b"[" + _event(*ids) + b"]"),
    "unknown type": _with_value(lambda *ids: _event(*ids, type="document.ocr_completed.v2")),
    "no source": _with_value(lambda *ids: _event(*ids, source=None)),
    "revision of words": _with_data(revision="first"),
    "no revision": _with_data(revision=None),
    "id with a space": _with_data(document_id="a b"),
    "id with a slash": _with_data(document_id="a/b"),
    "unknown text": _with_value(
        lambda organization_id, document_id: _event(
            organization_id,
            document_id,
            type="document.ocr_completed.v1",
            data={
                "document_name": "d",
                "tag_ids": ["t"],
                "upload_date": "2026-01-01T00:00:00Z",
                "text_ref": f"{organization_id}/{document_id}/{'0' * 64}",
            },
        )
    ),
    "too large": _with_data(text="x" * _LARGE),
    "bad data without a key": lambda *ids: Poison(None, _event(*ids, data={"revision": "first"})),
    "key of another document": lambda organization_id, document_id: Poison(
        _key(organization_id, "another"), _event(organization_id, document_id)
    ),
    "malformed key": lambda *ids: Poison(b"\xff\xfe\x00", _event(*ids, data={"revision": "first"})),
    "key in quotes": lambda *ids: Poison(b'"' + _key(*ids) + b'"', _event(*ids, data={"revision": []})),
    "malformed headers": lambda *ids: Poison(
        _key(*ids), _event(*ids, data={"revision": "x"}), [("traceparent", b"\xff"), ("", b""), ("x", b"\x00" * 999)]
    ),
}


if __name__ == "__main__":
    main()
