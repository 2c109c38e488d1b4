"""Which documents belong to which KBs, and what has drift there."""

from kb_shared.membership.decision import (
    Action,
    awaits_text,
    belongs,
    chunk_metadata_digest,
    decide,
    membership,
)

__all__ = ["Action", "awaits_text", "belongs", "chunk_metadata_digest", "decide", "membership"]
