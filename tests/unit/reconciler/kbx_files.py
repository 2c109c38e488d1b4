"""Writes `.kbx` files, sound ones and others."""

import hashlib
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

HASHES: Final = ("0" * 64, "a" * 64)
MAX_TEXT_BYTES: Final = 1_000

CONFIGURATION: Final[dict[str, Any]] = {
    "name": "KB",
    "description": "",
    "tag_ids": ["a"],
    "chunker_type": "recursive",
    "chunk_size": 200,
    "chunk_overlap": 20,
    "embedding_model": "hash-2",
    "embedding_dimensions": 2,
    "max_chunks_per_document": 2000,
    "coalesce_neighbors": 0,
    "min_score": None,
    "text_analyzer": "lucene.standard",
    "text_normalization": 2,
    "filterable_metadata": [],
    "rate_limits": {},
}


def document(document_id: str = "d1", **fields: Any) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "document_name": "a.pdf",
        "upload_date": "2026-01-31T00:00:00Z",
        "content_type": None,
        "tag_ids": ["a"],
        "metadata": None,
        "text_revision": 1,
        "tags_revision": 1,
        "metadata_revision": None,
        **fields,
    }


def text(document_id: str = "d1", **fields: Any) -> dict[str, Any]:
    return {"document_id": document_id, "text": "harvest", "pages": [], **fields}


def vector(chunk_hash: str) -> dict[str, Any]:
    return {"chunk_hash": chunk_hash, "provider_fingerprint": "0123456789abcdef"}


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def members() -> dict[str, bytes]:
    """Return the members of a sound file, without the manifest."""
    return {
        "knowledge_base.json": json.dumps(CONFIGURATION).encode(),
        "tags.jsonl": lines({"tag_id": "a", "name": "A"}),
        "documents.jsonl": lines(document("d1"), document("d2")),
        "texts.jsonl": lines(text("d1"), text("d2")),
        "vectors.jsonl": lines(*map(vector, HASHES)),
        "vectors.f32": struct.pack("<4f", 1, 2, 3, 4),
    }


def manifest(of: Mapping[str, bytes], **fields: Any) -> dict[str, Any]:
    facts = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in of.items()}
    counts = {"tags": 1, "documents": 2, "chunks": 2, "distinct_chunks": 2, "vectors": 2}
    return {
        "format": "kbx",
        "schema_version": 1,
        "written_by": "test",
        "export_id": "0" * 24,
        "exported_at": "2026-01-31T00:00:00Z",
        "contents": "full",
        "source": {"organization_id": "acme", "kb_id": "1" * 24},
        "embedding_model": "hash-2",
        "embedding_dimensions": 2,
        "text_normalization": 2,
        "counts": counts,
        "members": facts,
        **fields,
    }


def write(
    folder: Path, contents: Mapping[str, bytes] | None = None, *, described: Mapping[str, Any] | None = None
) -> Path:
    """Write a file with these members; `described` is its manifest, by default one that is right."""
    contents = members() if contents is None else contents
    path = folder / "kb.kbx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in contents.items():
            zipped.writestr(name, data)
        zipped.writestr("manifest.json", json.dumps(manifest(contents) if described is None else described))
    return path
