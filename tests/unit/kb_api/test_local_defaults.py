"""Defaults of a local stack."""

from kb_api.create_knowledge_base import HEADING_TOKENS
from kb_local.stack import LOCAL_DEFAULTS
from kb_shared.embedding.models import LOCAL_MODELS


def test_the_default_model_reads_whole_chunks_of_the_default_size_with_their_headings() -> None:
    max_input_tokens = LOCAL_MODELS[LOCAL_DEFAULTS["KB_EMBEDDING_MODEL"]].max_input_tokens
    assert int(LOCAL_DEFAULTS["KB_DEFAULT_CHUNK_SIZE"]) + HEADING_TOKENS == max_input_tokens
