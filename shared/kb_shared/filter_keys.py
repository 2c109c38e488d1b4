"""Names that no filter on metadata may have, and so no key that filters shall know."""

from typing import Final

UNSAFE_NAMES: Final = ("__proto__", "constructor", "prototype")
"""As a key or a part of one between dots. A document may have such metadata, and results show it; but a filter goes
through programs of callers that make objects of its keys, and there these names mean something else."""

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
"""Fields of a chunk that somebody may take for filter keys; as metadata keys they would silently match nothing."""
