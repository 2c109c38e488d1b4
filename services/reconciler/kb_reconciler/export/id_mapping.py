"""Maps ids of a file to ids of the organization that the KB is imported into."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kb_contracts.identifiers import is_identifier
from kb_contracts.reserved_ids import find_reserved_tag_ids, is_reserved_document_id
from kb_reconciler.export.kbx import UnreadableFile


@dataclass(frozen=True, slots=True)
class IdMapping:
    tags: Mapping[str, str] = field(default_factory=dict)
    """New ids of tags, by the id in the file; other tags keep theirs."""
    document_prefix: str = ""
    """Beginning of the new ids of documents, before the id in the file."""

    @classmethod
    def parse(cls, tag_options: Iterable[str], *, document_prefix: str) -> "IdMapping":
        """Read options such as `old=new`. Raises ValueError, whose text says which option is wrong."""
        tags: dict[str, str] = {}
        for option in tag_options:
            old, _, new = option.partition("=")
            if not is_identifier(old) or not is_identifier(new):
                raise ValueError(f"--tag {option!r} is not OLD=NEW with two ids of tags")
            if old in tags:
                raise ValueError(f"--tag names {old!r} twice")
            tags[old] = new
        if document_prefix and not is_identifier(document_prefix):
            raise ValueError("--document-prefix may contain only letters, digits, '.', '_' and '-'")
        return cls(tags, document_prefix)

    def map_tags(self, tag_ids: Iterable[str]) -> list[str]:
        """Return the new ids, in order, each once."""
        mapped = list(dict.fromkeys(self.tags.get(tag_id, tag_id) for tag_id in tag_ids))
        if reserved := find_reserved_tag_ids(mapped):
            raise UnreadableFile(f"tag {reserved[0]!r} is reserved; choose another one with --tag {reserved[0]}=NEW")
        return mapped

    def map_document(self, document_id: str) -> str:
        mapped = self.document_prefix + document_id
        if not is_identifier(mapped):
            raise UnreadableFile(f"document {document_id!r} has too long an id with the prefix; choose a shorter one")
        if is_reserved_document_id(mapped):
            raise UnreadableFile(f"document {mapped!r} would be an entry; choose other ids with --document-prefix")
        return mapped

    def require_tags_of(self, tag_ids: Collection[str]) -> None:
        """Refuse a mapping of a tag that the file does not have: the option has a typing error."""
        for tag_id in self.tags:
            if tag_id not in tag_ids:
                raise UnreadableFile(f"--tag: the file has no tag {tag_id!r}")
