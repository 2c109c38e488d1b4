"""What the clients of other projects are driven against, run with the project's own Python.

`python -m tests.clients.deployment` starts a mongod with the search node before it, stores a small knowledge base with
the project's own code, prints where everything is as one line of JSON, and ends with its standard input.
"""

import asyncio
import hashlib
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.operations import SearchIndexModel

from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.python_server import SearchNodeProcess
from kb_local.server import poll_until
from kb_shared.mongo import chunk_indexes, search_indexes, vectors
from kb_shared.mongo.vectors import ChunkMetadata, Chunks, EmbeddedChunk
from tests.clients.embedding import DIMENSIONS, embed

ORGANIZATION_ID = "org-1"
KB_ID = "0123456789abcdef01234567"
TEXT_INDEX = "kb_text_index"
READY_TIMEOUT_S = 15.0
DOCUMENTS = {
    "invoice": ["The invoice number is INV-4711.", "It is due in thirty days."],
    "contract": ["The contract ends in December.", "Either party may cancel the contract early."],
}


async def store_knowledge_base(client: AsyncMongoClient[dict[str, Any]]) -> dict[str, str]:
    """Store the documents as the indexer does, and return where they are."""
    database = client["knowledge"]
    collection = await database.create_collection(f"kb_vectors_{KB_ID}")
    chunks = Chunks(collection, ORGANIZATION_ID, KB_ID)
    await collection.create_indexes(vectors.INDEXES)
    text_mapping = {
        "chunk_text": {"type": "string"},
        "organization_id": {"type": "token"},
        "kb_id": {"type": "token"},
    }
    text_index = SearchIndexModel(
        {"analyzer": "lucene.english", "mappings": {"dynamic": False, "fields": text_mapping}},
        TEXT_INDEX,
        type="search",
    )
    await collection.create_search_indexes([chunk_indexes.build_vector_index(DIMENSIONS), text_index])
    for document_id, texts in DOCUMENTS.items():
        changes = vectors.plan_changes(
            scope=chunks.scope,
            document_id=document_id,
            chunks=[_chunk(place, text) for place, text in enumerate(texts)],
            metadata=ChunkMetadata(f"{document_id}.pdf", ("tag-1",), datetime.now(UTC), {"pages": 2}, ()),
            version=1,
            before=(),
        )
        async with client.start_session() as session:
            await vectors.write(chunks, session, changes.writes)

    async def ready() -> bool:
        return [index.status for index in await search_indexes.list_indexes(collection)] == ["READY", "READY"]

    if not await poll_until(ready, timeout_s=READY_TIMEOUT_S):
        raise TimeoutError("the search indexes are not ready")
    return {
        "database": database.name,
        "collection": collection.name,
        "vector_index": chunk_indexes.VECTOR_INDEX,
        "text_index": TEXT_INDEX,
        "organization_id": ORGANIZATION_ID,
        "kb_id": KB_ID,
    }


def _chunk(place: int, text: str) -> EmbeddedChunk:
    return EmbeddedChunk(
        chunk_index=place,
        chunk_hash=hashlib.sha256(text.encode()).hexdigest(),
        passage_hash=hashlib.sha256(text.encode()).hexdigest(),
        text=text,
        vector=embed(text),
        token_count=len(text.split()),
        start=0,
        end=len(text),
        page_start=None,
        page_end=None,
        heading_path=(),
        chunk_type="text",
    )


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kb-clients-") as folder:
        mongod = Mongod(Path(folder) / "mongo", port=free_port(), log=Path(folder) / "mongod.log")
        await mongod.start()
        node = SearchNodeProcess(mongod=mongod.address, port=free_port(), log=Path(folder) / "search-node.log")
        try:
            await node.start()
            async with AsyncMongoClient[dict[str, Any]](node.uri) as client:
                knowledge_base = await store_knowledge_base(client)
            print(json.dumps({"uri": node.uri, "knowledge_base": knowledge_base}), flush=True)  # noqa: T201  # its answer
            await asyncio.to_thread(sys.stdin.read)
        finally:
            await node.stop()
            await mongod.stop()


if __name__ == "__main__":
    asyncio.run(main())
