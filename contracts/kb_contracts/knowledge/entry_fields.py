"""Fields of entries and pieces, with their rules."""

from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from kb_contracts.identifiers import Identifier
from kb_contracts.reserved_ids import ENTRY_ID_PATTERN, RESERVED_TAG_PREFIX, is_reserved_tag_id
from kb_contracts.text_rules import storable, visible

MAX_CONTENT_CHARACTERS: Final = 200_000
MAX_TITLE_CHARACTERS: Final = 300
MAX_ENTRY_TAGS: Final = 20
DEFAULT_ENTRY_TYPE: Final = "note"
DEFAULT_INFO_TYPE: Final = "context"
KNOWN_INFO_TYPES: Final = ("user_profile", "instructions", "context", "skills")
FILTERABLE_ENTRY_FIELDS: Final = ("type", "source_kind", "knowledge_type", "info_type", "entity_id")
"""Fields of an entry that are metadata of its document: searches for entries filter by them."""


def _not_reserved(tag: str) -> str:
    if is_reserved_tag_id(tag):
        raise ValueError(f"must not begin with {RESERVED_TAG_PREFIX}, which is reserved: choose another name")
    return tag


def _in_lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


EntryId: TypeAlias = Annotated[str, StringConstraints(pattern=ENTRY_ID_PATTERN)]
EntryTitle: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_TITLE_CHARACTERS, pattern=r"^[^\x00-\x1f\x7f]*$"),
    AfterValidator(storable),
    AfterValidator(visible),
]
EntryContent: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_CONTENT_CHARACTERS),
    AfterValidator(storable),
    AfterValidator(visible),
]
EntryType: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,40}$")]
"""Type of an entry, an open set: `note`, `rule`, `pattern`, `reference`, `decision` by convention."""
EntryTags: TypeAlias = Annotated[
    list[Annotated[Identifier, AfterValidator(_not_reserved)]], Field(max_length=MAX_ENTRY_TAGS)
]
KnowledgeTypeName: TypeAlias = Literal["fact", "instruction", "preference", "procedure", "note", "episodic"]
KNOWLEDGE_TYPES: Final[tuple[KnowledgeTypeName, ...]] = get_args(KnowledgeTypeName)
KnowledgeType: TypeAlias = Annotated[KnowledgeTypeName, BeforeValidator(_in_lower_case)]
"""Kind of knowledge that a piece is, in any case; kept in lower case."""
InfoType: TypeAlias = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=64, pattern=r"^[^\s{}\x00-\x1f\x7f]([^{}\x00-\x1f\x7f]*[^\s{}\x00-\x1f\x7f])?$"
    ),
    AfterValidator(storable),
]
"""Section of a prompt that a piece goes to, an open set; a template names it within braces."""


def first_line(content: str) -> str:
    """Return the first line with a printable character, the title of a piece without one."""
    lines = ("".join(filter(str.isprintable, line)).strip() for line in content.splitlines())
    return next((line[:MAX_TITLE_CHARACTERS].rstrip() for line in lines if line), "Untitled")
