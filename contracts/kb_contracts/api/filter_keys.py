"""Lists the metadata keys that no filter may contain."""

from typing import Final

UNSAFE_NAMES: Final = ("__proto__", "constructor", "prototype")
"""Names that are refused as a filter key or as a part of one between dots. A document may have such metadata, and
results contain it. But callers convert filters to JavaScript objects, in which these names have another meaning."""

INSTEAD: Final = {
    "organization_id": "the organization comes from the address",
    "kb_id": "the knowledge base comes from the address",
    "document_id": "use the field document_ids",
    "upload_date": "use the fields upload_date_from and upload_date_to",
    "metadata_snapshot": "name the metadata key alone",
    "metadata_pairs": "name the metadata key alone",
    "embedding": "vectors can't be filtered by",
    "_id": "use the field document_ids",
}
"""Fields of a chunk that callers may mistake for filter keys, with a hint. As metadata keys they match nothing."""
