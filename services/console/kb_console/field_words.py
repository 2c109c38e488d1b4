"""Names of fields of the API, as the forms of the console call them."""

from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, str]] = {
    "api_base": "Address",
    "b_min_score": "Minimum score of the second search",
    "b_neighbors": "Passages around each of the second search",
    "coalesce_neighbors": "Passages around each result",
    "cron_expression": "Schedule",
    "document_ids": "Documents",
    "file_id": "File",
    "filterable_metadata": "Metadata keys that filters can compare",
    "key": "Metadata key",
    "kb_ids": "Knowledge bases",
    "max_chunks_per_document": "Passages of a document, at most",
    "max_iterations": "Rounds, at most",
    "max_output_tokens": "Tokens of an answer, at most",
    "max_tokens": "Tokens, at most",
    "min_score": "Minimum score",
    "neighbors": "Passages around each",
    "prefixes": "Only below these addresses",
    "response_schema": "JSON schema",
    "tag_ids": "Tags",
    "text_analyzer": "Language of the texts",
    "top_k": "Results",
    "upload_date_from": "Dated from",
    "upload_date_to": "Dated to",
    "url": "Address",
}


def field_words(name: str) -> str:
    """Return the words of a field: of `config.url` those of `url`, of one that has none its name without signs."""
    known = _WORDS.get(name) or _WORDS.get(name.removeprefix("config."))
    return name.replace("_", " ") if known is None else known
