"""Reads the first chunk of entries, by which a run cites them."""

from collections.abc import Collection

from kb_shared.mongo.database import Row
from kb_shared.mongo.vectors import Chunks

_SHOWN = {"document_id": 1, "document_name": 1, "chunk_text": 1, "start": 1, "end": 1, "heading_path": 1}


async def find_first_chunks(chunks: Chunks, document_ids: Collection[str]) -> dict[str, Row]:
    """Return the first live chunk of each document that is indexed, by document."""
    query = {**chunks.scope, "document_id": {"$in": list(document_ids)}, "chunk_index": 0, "until": None}
    return {row["document_id"]: row async for row in chunks.collection.find(query, _SHOWN)}
