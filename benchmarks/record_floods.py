"""`python -m benchmarks.record_floods`: how long an event waits behind a flood of records in its partition.

Each flood is written to one partition, and behind it an event of another document, which is measured from its
acknowledgement until a search finds it. The side load is indexed meanwhile: new documents of another KB.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.raw_records import RawRecords, raw_records
from benchmarks.indexing.system import System, add_options, running_system, until
from kb_contracts.cloudevents import encode
from kb_contracts.documents import OcrCompleted, key_of

TAG: Final = "behind-a-flood"
SIDE_TAG: Final = "side-load"
SOURCE: Final = "/benchmark"
FLOODING: Final = "flooding"
"""Organization of the bad records."""
_PARTITION: Final = 3
_FIRST_TEXT: Final = 1_000_000
"""Number of a text that no other document has."""

KeyAndValue: TypeAlias = tuple[bytes | None, bytes]


def main() -> None:
    parser = command.parser("record_floods", __doc__)
    parser.add_argument("--duplicates", type=int, default=2_000, help="of one event, with the same id")
    parser.add_argument("--copies", type=int, default=2_000, help="of one event, each with an id of its own")
    parser.add_argument("--revisions", type=int, default=2_000, help="of one document, each with another text")
    parser.add_argument("--bad", type=int, default=5_000, help="records of another organization without valid data")
    parser.add_argument("--without-key", type=int, default=2_000, help="good events without a key")
    parser.add_argument("--side-load", type=int, default=200, help="documents that are published before each flood")
    add_options(parser, words=330, dims=384)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with running_system(folder, options) as system, raw_records(system) as records:
        kb_id = await system.create_knowledge_base(TAG, options)
        await system.create_knowledge_base(SIDE_TAG, options)
        benchmark = _FloodBenchmark(system, records, kb_id, options)
        return {
            name: await benchmark.measure(name, flood, first=1_000 * number)
            for number, (name, flood) in enumerate(_floods(system, options).items())
            if flood
        }


@dataclass(frozen=True, slots=True)
class _FloodBenchmark:
    system: System
    records: RawRecords
    kb_id: str
    options: argparse.Namespace

    async def measure(self, name: str, flood: Sequence[KeyAndValue], *, first: int) -> dict[str, Any]:
        """Write the side load, whose texts have numbers from `first` on, the flood and an event behind it."""
        texts = corpus.texts(documents=self.options.side_load, words=self.options.words, first=first)
        for number, text in enumerate(texts):
            await self.records.write(*_written(self.system.event(f"{name}-{number}", text, tag_id=SIDE_TAG)))
        document_id = f"behind-{name}"
        behind = self.system.event(document_id, f"The one behind {name}", tag_id=TAG)
        began = monotonic()
        acknowledgements = [
            await self.records.write(*record, partition=_PARTITION) for record in [*flood, _written(behind)]
        ]
        await asyncio.gather(*acknowledgements)
        published = monotonic()
        await self.system.until_found(self.kb_id, [document_id])
        waited_s = round(monotonic() - published, 1)
        print(f"{name}: {waited_s} s", file=sys.stderr, flush=True)
        await until(self.records.are_finished)
        return {
            "records": len(flood),
            "published_s": round(published - began, 1),
            "event_waited_s": waited_s,
            "all_done_s": round(monotonic() - began, 1),
        }


def _floods(system: System, options: argparse.Namespace) -> dict[str, list[KeyAndValue]]:
    """Return floods by name, in the order in which they are measured."""
    text = next(corpus.texts(documents=1, words=options.words, first=_FIRST_TEXT))
    duplicate, copied = (system.event(document_id, text, tag_id=TAG) for document_id in ("duplicate", "copied"))
    revised = [
        system.event("revised", text, tag_id=TAG, revision=number)
        for number, text in enumerate(corpus.texts(documents=options.revisions, words=options.words), 1)
    ]
    without_key = [system.event(f"without-key-{n}", "short", tag_id="of-no-kb") for n in range(options.without_key)]
    return {
        "duplicates": [_written(duplicate)] * options.duplicates,
        "copies": [_written(copied) for _ in range(options.copies)],
        "revisions": [_written(event) for event in revised],
        "bad": [(f"{FLOODING}/doc-{n}".encode(), _bad_event(n)) for n in range(options.bad)],
        "without_key": [(None, encode(event, source=SOURCE)) for event in without_key],
    }


def _written(event: OcrCompleted) -> KeyAndValue:
    return key_of(event), encode(event, source=SOURCE)


def _bad_event(number: int) -> bytes:
    """Return an event whose data has no revision."""
    envelope = {
        "specversion": "1.0",
        "id": f"bad-{number}",
        "source": SOURCE,
        "type": "document.deleted.v1",
        "time": "2026-01-01T00:00:00Z",
        "data": {"organization_id": FLOODING, "document_id": f"doc-{number}"},
    }
    return json.dumps(envelope).encode()


if __name__ == "__main__":
    main()
