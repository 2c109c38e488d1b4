"""Cut a text into chunks: token-sized, exact in their offsets, on every script.

`chunking_steps` is the way in. It is pure and takes CPU only: run its steps off the event loop. `chunk_text` does all
of them at once.
"""

from kb_shared.chunking.chunk import Chunk, ChunkerType, ChunkingConfig, PageSpan
from kb_shared.chunking.chunker import ChunkingSteps, advance, chunk_text, chunking_steps
from kb_shared.chunking.semantic import VectorsWanted
from kb_shared.text.tokens import count_tokens

__all__ = [
    "Chunk",
    "ChunkerType",
    "ChunkingConfig",
    "ChunkingSteps",
    "PageSpan",
    "VectorsWanted",
    "advance",
    "chunk_text",
    "chunking_steps",
    "count_tokens",
]
