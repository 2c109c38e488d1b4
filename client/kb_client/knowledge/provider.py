"""Sections of a prompt, made of what is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kb_client.knowledge.knowledge_base import DEFAULT_DEPTH, DEFAULT_TOP_K, KnowledgeBase
from kb_contracts.knowledge.plain_text import ITEM_DELIMITER
from kb_contracts.knowledge.routing import METADATA_INFO_TYPE, SectionFormatter, format_sections


@dataclass(frozen=True, slots=True)
class KnowledgeProvider:
    """Retrieves knowledge for an input, and returns the text of each section by its info type."""

    kb: KnowledgeBase
    metadata_info_type: str = field(default=METADATA_INFO_TYPE, kw_only=True)
    """Section that properties go to."""
    item_delimiter: str = field(default=ITEM_DELIMITER, kw_only=True)
    formatters: Mapping[str, SectionFormatter] = field(default_factory=dict, kw_only=True)
    """Function that writes a section, by info type. `compile_formatter` makes one of a template."""
    top_k: int = field(default=DEFAULT_TOP_K, kw_only=True)
    depth: int = field(default=DEFAULT_DEPTH, kw_only=True)

    def __call__(self, user_input: str) -> dict[str, str]:
        """Return the sections that are not empty, such as `{"user_profile": ..., "instructions": ...}`."""
        return format_sections(
            self.kb.retrieve(user_input, top_k=self.top_k, depth=self.depth),
            metadata_info_type=self.metadata_info_type,
            item_delimiter=self.item_delimiter,
            formatters=self.formatters,
        )
