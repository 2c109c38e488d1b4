"""What the machine could do at best: the same rows inserted in transactions, and the embedding server alone."""

import asyncio
import random
from time import perf_counter
from typing import Any, Final

import httpx
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient

_CONCURRENCY: Final = 16
_TEXTS_A_CALL: Final = 100

Rows = list[RawBSONDocument]


async def insert_rate(mongo_uri: str, database: str, collection: str, documents: int) -> float:
    """Documents a second when nothing is done but to insert their chunks, a transaction each, sixteen at once."""
    async with AsyncMongoClient[RawBSONDocument](mongo_uri, document_class=RawBSONDocument, w="majority") as client:
        source = client[database][collection]
        rows_by_document: dict[str, Rows] = {}
        async for row in source.find({}):
            rows_by_document.setdefault(str(row["document_id"]), []).append(row)
        target = client[f"{database}_raw"].chunks
        await target.create_index([("document_id", 1), ("chunk_index", 1)])
        turns = asyncio.Semaphore(_CONCURRENCY)

        async def insert(rows: Rows) -> None:
            async with turns, client.start_session() as session:
                await session.with_transaction(lambda s: target.insert_many(rows, ordered=False, session=s))

        began = perf_counter()
        await asyncio.gather(*(insert(rows) for rows in rows_by_document.values()))
        seconds = perf_counter() - began
        await client.drop_database(f"{database}_raw")
    assert len(rows_by_document) == documents, "every document must have been indexed"
    return documents / seconds


async def embed_rate(api_base: str, model: str, *, documents: int, chunks: int) -> float:
    """Documents a second when nothing is done but to embed as many new texts, a hundred a call, 16 calls at once."""
    turns = asyncio.Semaphore(_CONCURRENCY)
    dice = random.Random(0)
    texts = [f"raw {dice.random()} " + "lorem ipsum " * 60 for _ in range(chunks)]

    async with httpx.AsyncClient(timeout=60) as http:

        async def embed(batch: list[str]) -> None:
            body: dict[str, Any] = {"model": model, "input": batch, "encoding_format": "base64"}
            async with turns:
                (await http.post(f"{api_base}/embeddings", json=body)).raise_for_status()

        began = perf_counter()
        await asyncio.gather(*(embed(texts[i : i + _TEXTS_A_CALL]) for i in range(0, chunks, _TEXTS_A_CALL)))
        return documents / (perf_counter() - began)
