"""Request bodies that create and change a KB."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from kb_contracts.identifiers import Identifier
from kb_shared.errors import RequestError
from kb_shared.http.model import MinScore, Name, StrictModel
from kb_shared.mongo.text_analyzers import TextAnalyzer
from kb_shared.text.filter_keys import INSTEAD, UNSAFE_NAMES

Description = Annotated[str, StringConstraints(max_length=2_000)]
KnowledgeBaseTagIds = Annotated[list[Identifier], Field(max_length=100)]
MaxChunks = Annotated[int, Field(ge=0, le=1_000_000)]

ChunkerName = Literal["recursive", "sentence", "token", "word", "semantic", "sdpm", "late"]


CoalesceNeighbors = Annotated[int, Field(ge=0, le=5)]


def _usable_in_filters(key: str) -> str:
    if key in UNSAFE_NAMES:
        raise ValueError("no filter may have this key")
    if hint := INSTEAD.get(key):
        raise ValueError(f"no filter may have this key: {hint}")
    return key


# Without dots, which in a filter path lead into a document; metadata has none.
FilterableKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$"), AfterValidator(_usable_in_filters)]
FilterableMetadata = Annotated[list[FilterableKey], Field(max_length=20)]
PerMinute = Annotated[int, Field(ge=1, le=1_000_000_000)]

IMMUTABLE: Final = (
    "chunker_type",
    "chunk_size",
    "chunk_overlap",
    "embedding_model",
    "text_analyzer",
    "text_normalization",
)


class RateLimits(StrictModel):
    """Limits of the calls that embed texts of a knowledge base, in addition to those of the provider."""

    requests_per_minute: PerMinute | None = Field(
        default=None, description="Limit of requests a minute; null: no limit."
    )
    tokens_per_minute: PerMinute | None = Field(default=None, description="Limit of tokens a minute; null: no limit.")


class CreateKnowledgeBase(StrictModel):
    name: Name
    description: Description = ""
    tag_ids: KnowledgeBaseTagIds = Field(
        default=[], description="Tags of the knowledge base: every document with one of them belongs to it."
    )
    chunker_type: ChunkerName = Field(default="recursive", description="Algorithm that splits texts into chunks.")
    chunk_size: Annotated[int, Field(ge=50, le=2_000)] | None = Field(
        default=None, description="Greatest number of tokens of a chunk. Default: that of the deployment (512)."
    )
    chunk_overlap: Annotated[int, Field(ge=0, le=1_999)] | None = Field(
        default=None,
        description="Tokens of the previous chunk to repeat (overlap); less than `chunk_size`. Default: that of the "
        "deployment (128), at most a quarter of `chunk_size`.",
    )
    embedding_model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="Name of a model of `GET /embedding-models`. Default: the model of the deployment."
    )
    coalesce_neighbors: CoalesceNeighbors = Field(
        default=0,
        description="Number of chunks on each side of a match that a search returns, unless the search says otherwise.",
    )
    min_score: MinScore | None = Field(
        default=None,
        description="Default of `min_score` of searches, from 0 to 1: smallest relevance of matches that only the "
        "vector index found. null: no minimum.",
    )
    text_analyzer: TextAnalyzer = Field(
        default="lucene.standard",
        description="Atlas Search analyzer of the text index: `lucene.standard` splits texts into words, those of "
        "languages also reduce words to stems.",
    )
    filterable_metadata: FilterableMetadata = Field(
        default=[], description="Metadata keys for which filters can also use `$ne`, `$nin` and the operators of order."
    )
    max_chunks_per_document: MaxChunks | None = Field(
        default=None,
        description="Greatest number of chunks of a document, at most the limit of the deployment. 0 means this limit.",
    )
    rate_limits: RateLimits = Field(
        default=RateLimits(),
        description="Limits of the calls that embed texts of this knowledge base, in addition to those of the "
        "provider.",
    )


def _unchanged(description: str | None = None) -> Any:
    """Return a field that may be absent but not null: it has no default in the schema."""
    return Field(default=None, description=description, json_schema_extra=_without_default)


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


class ChangeKnowledgeBase(StrictModel):
    """Changes of a knowledge base. Fields that are left out do not change."""

    # So what counts is `model_fields_set`: the value of an absent field is None, whatever its type says.

    name: Name = _unchanged()
    description: Description = _unchanged()
    tag_ids: KnowledgeBaseTagIds = _unchanged(
        "Tags of the knowledge base: every document with one of them belongs to it."
    )
    coalesce_neighbors: CoalesceNeighbors = _unchanged(
        "Number of chunks on each side of a match that a search returns, unless the search says otherwise."
    )
    min_score: MinScore | None = _unchanged(
        "Default of `min_score` of searches, from 0 to 1: smallest relevance of matches that only the vector "
        "index found. null: no minimum."
    )
    filterable_metadata: FilterableMetadata = _unchanged(
        "Metadata keys for which filters can also use `$ne`, `$nin` and the operators of order."
    )
    max_chunks_per_document: MaxChunks = _unchanged(
        "Greatest number of chunks of a document, at most the limit of the deployment. 0 means this limit."
    )
    rate_limits: RateLimits = _unchanged(
        "Limits of the calls that embed texts of this knowledge base, in addition to those of the provider."
    )

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
