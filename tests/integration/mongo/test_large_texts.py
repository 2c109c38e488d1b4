"""Texts that are stored in files."""

from collections.abc import AsyncIterator
from typing import Any

from pymongo import AsyncMongoClient

from kb_local.mongod import Mongod
from kb_shared.mongo import document_texts
from kb_shared.mongo.keys import DocumentKey
from tests.conftest import RunningMongo
from tests.integration.indexer.support import CommandLog

PIECE = b"a line of many\n" * 4_000
PIECES = 100


async def test_a_large_text_is_written_in_parts_while_it_comes(
    mongod: RunningMongo | Mongod, database_name: str
) -> None:
    log = CommandLog()
    inserts_before: list[int] = []

    def inserts() -> int:
        return log.names().count(f"insert {document_texts.NAME}.chunks")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(PIECES):
            inserts_before.append(inserts())
            yield PIECE

    async with AsyncMongoClient[dict[str, Any]](mongod.uri, tz_aware=True, event_listeners=[log]) as client:
        database = client[database_name]
        reference = await document_texts.put_stream(database, DocumentKey("acme", "d"), pieces())
        stored = (await document_texts.find_all(database, "acme", [reference])).get(reference)
        await client.drop_database(database_name)
    assert stored is not None
    assert stored.text == (PIECE * PIECES).decode()
    # Of 6 MB: at no time more than about one is in memory.
    assert inserts() >= 5
    assert inserts_before[-1] >= 4
