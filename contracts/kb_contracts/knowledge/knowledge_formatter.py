"""The complete output of a retrieval as text with headers."""

from dataclasses import dataclass

from kb_contracts.knowledge.plain_text import (
    ITEM_DELIMITER,
    SECTION_DELIMITER,
    metadata_lines,
    pieces_text,
    relation_lines,
)
from kb_contracts.knowledge.retrieval import RetrievalResult


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeFormatter:
    """Writes all that was retrieved, in the order metadata, global metadata, knowledge, relationships.

    Empty sections are left out. The same result gives the same bytes, in whatever order its parts are.
    """

    section_delimiter: str = SECTION_DELIMITER
    item_delimiter: str = ITEM_DELIMITER
    include_tags: bool = True
    include_scores: bool = False

    def __call__(self, result: RetrievalResult) -> str:
        pieces = pieces_text(
            result.pieces,
            item_delimiter=self.item_delimiter,
            include_tags=self.include_tags,
            include_scores=self.include_scores,
        )
        sections = {
            "Metadata": metadata_lines(result.metadata),
            "Global Metadata": metadata_lines(result.global_metadata),
            "Knowledge": pieces,
            "Relationships": relation_lines(result.graph_context),
        }
        return self.section_delimiter.join(f"[{header}]\n{text}" for header, text in sections.items() if text)
