"""What may be said of a KB when it is created and when it is changed."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from kb_contracts.identifiers import Identifier
from kb_shared.errors import RequestError
from kb_shared.filter_keys import INSTEAD, UNSAFE_NAMES
from kb_shared.http.model import Model
from kb_shared.mongo.text_analyzers import TextAnalyzer

# Something to see, and no control characters.
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"),
]
Description = Annotated[str, StringConstraints(max_length=2_000)]
TagIds = Annotated[list[Identifier], Field(max_length=100)]
MinScore = Annotated[float, Field(ge=0, le=1)]
MaxChunks = Annotated[
    int, Field(ge=0, le=1_000_000, description="At most the deployment's limit, which is also what 0 means.")
]

ChunkerType = Literal["recursive", "sentence", "token", "word", "semantic", "sdpm", "late"]


CoalesceNeighbors = Annotated[
    int, Field(ge=0, le=5, description="Chunks on either side of a match that come with it, unless a search says so.")
]


def _usable_in_filters(key: str) -> str:
    if key in UNSAFE_NAMES:
        raise ValueError("no filter may have this key")
    if hint := INSTEAD.get(key):
        raise ValueError(f"no filter may have this key: {hint}")
    return key


# Without dots, which in a filter path lead into a document; metadata has none.
FilterableKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$"), AfterValidator(_usable_in_filters)]
FilterableMetadata = Annotated[
    list[FilterableKey],
    Field(max_length=20, description="Metadata keys that filters may compare with `$ne`, `$nin`, `$gt`, ... as well."),
]
PerMinute = Annotated[int, Field(ge=1, le=1_000_000_000)]

IMMUTABLE: Final = (
    "chunker_type",
    "chunk_size",
    "chunk_overlap",
    "embedding_model",
    "text_analyzer",
    "text_normalization",
)


class RateLimits(Model):
    """Limits of embedding for a KB, beside those of its provider; null: none."""

    requests_per_minute: PerMinute | None = None
    tokens_per_minute: PerMinute | None = None


class CreateKnowledgeBase(Model):
    name: Name
    description: Description = ""
    tag_ids: TagIds = Field(default=[])
    chunker_type: ChunkerType = "recursive"
    chunk_size: Annotated[int, Field(ge=50, le=2_000, description="Tokens.")] | None = None
    chunk_overlap: Annotated[int, Field(ge=0, le=1_999, description="Tokens; less than `chunk_size`.")] | None = None
    embedding_model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    coalesce_neighbors: CoalesceNeighbors = 0
    min_score: MinScore | None = None
    text_analyzer: Annotated[
        TextAnalyzer,
        Field(description="How texts become words: split only, or by the word stems of a language as well."),
    ] = "lucene.standard"
    filterable_metadata: FilterableMetadata = Field(default=[])
    max_chunks_per_document: MaxChunks | None = None
    rate_limits: RateLimits = RateLimits()


def _unchanged() -> Any:
    """Remove the default of a field that may be absent but not null."""
    return Field(default=None, json_schema_extra=_without_default)


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


class ChangeKnowledgeBase(Model):
    """Changes of a KB. Fields that are left out stay as they are."""

    # So what counts is `model_fields_set`: the value of an absent field is None, whatever its type says.

    name: Name = _unchanged()
    description: Description = _unchanged()
    tag_ids: TagIds = _unchanged()
    coalesce_neighbors: CoalesceNeighbors = _unchanged()
    min_score: MinScore | None = _unchanged()
    filterable_metadata: FilterableMetadata = _unchanged()
    max_chunks_per_document: MaxChunks = _unchanged()
    rate_limits: RateLimits = _unchanged()

    @model_validator(mode="before")
    @classmethod
    def _refuse_immutable(cls, value: Any) -> Any:
        named = [name for name in IMMUTABLE if isinstance(value, dict) and name in value]
        if named:
            raise RequestError(
                422,
                "immutable-field",
                f"{', '.join(named)} can't change once a knowledge base exists. Create another knowledge base with the "
                "same tag_ids and the new values, and delete this one when that is active.",
                extra={"fields": [{"field": name, "message": "This field is immutable"} for name in named]},
            )
        return value
