"""Knowledge bases: their configuration, status and size."""

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from kb_contracts.api.filter_keys import INSTEAD, UNSAFE_NAMES
from kb_contracts.api.model import MinScore, Name, PerMinute, StrictModel, example, optional_change
from kb_contracts.identifiers import Identifier

TextAnalyzer: TypeAlias = Literal[
    "lucene.standard",
    "lucene.english",
    "lucene.armenian",
    "lucene.basque",
    "lucene.catalan",
    "lucene.danish",
    "lucene.dutch",
    "lucene.finnish",
    "lucene.french",
    "lucene.german",
    "lucene.hungarian",
    "lucene.italian",
    "lucene.norwegian",
    "lucene.portuguese",
    "lucene.romanian",
    "lucene.russian",
    "lucene.spanish",
    "lucene.swedish",
]
"""Analyzer of texts: splits words only, or also reduces them to the stems of a language."""
ChunkerName = Literal["recursive", "sentence", "token", "word", "semantic", "sdpm", "late"]
ShownStatus = Literal["creating", "building", "indexing", "active", "error"]

Description = Annotated[str, StringConstraints(max_length=2_000)]
KnowledgeBaseTagIds = Annotated[list[Identifier], Field(max_length=100)]
MaxChunks = Annotated[int, Field(ge=0, le=1_000_000)]
CoalesceNeighbors = Annotated[int, Field(ge=0, le=5)]


def _usable_in_filters(key: str) -> str:
    if key in UNSAFE_NAMES:
        raise ValueError("must be another key: no filter may have this one")
    if hint := INSTEAD.get(key):
        raise ValueError(f"must be another key: no filter may have this one: {hint}")
    return key


# Without dots, which in a filter path lead into a document; metadata has none.
FilterableKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$"), AfterValidator(_usable_in_filters)]
FilterableMetadata = Annotated[list[FilterableKey], Field(max_length=20)]

IMMUTABLE: Final = (
    "chunker_type",
    "chunk_size",
    "chunk_overlap",
    "embedding_model",
    "text_analyzer",
    "text_normalization",
)
"""Fields of a knowledge base that can't change once it exists."""


_KNOWLEDGE_BASE: Final = {
    "kb_id": "65f1c2a3b4d5e6f708192a3b",
    "kind": "documents",
    "name": "Handbook",
    "description": "Rules for employees.",
    "tag_ids": ["hr"],
    "dead_tag_ids": [],
    "chunker_type": "recursive",
    "chunk_size": 512,
    "chunk_overlap": 128,
    "embedding_model": "text-embedding-3-small",
    "embedding_dimensions": 1536,
    "coalesce_neighbors": 0,
    "min_score": None,
    "text_analyzer": "lucene.english",
    "text_normalization": 3,
    "filterable_metadata": ["year"],
    "max_chunks_per_document": 2000,
    "refuse_sensitive": False,
    "rate_limits": {"requests_per_minute": None, "tokens_per_minute": None},
    "status": "active",
    "status_reason": None,
    "paused_at": None,
    "index_rebuild": None,
    "warnings": [],
    "document_count": 42,
    "chunk_count": 1250,
    "created_at": "2026-01-31T12:00:00Z",
    "updated_at": "2026-01-31T12:00:00Z",
    "created_by": "3f9c1d2e4b5a6978",
    "updated_by": "3f9c1d2e4b5a6978",
    "last_searched_at": None,
}


class RateLimits(StrictModel):
    """Limits of the calls that embed texts of a knowledge base, in addition to those of the provider."""

    requests_per_minute: PerMinute | None = Field(
        default=None, description="Limit of requests a minute; null: no limit."
    )
    tokens_per_minute: PerMinute | None = Field(default=None, description="Limit of tokens a minute; null: no limit.")


_REFUSE_SENSITIVE: Final = (
    "Whether documents that contain a credential, such as a password or an API key, are refused: they fail with "
    "`sensitive_content`. A change has all documents checked again, without new embeddings: those with a credential "
    "leave the knowledge base, or come back."
)


class CreateKnowledgeBase(StrictModel):
    model_config = example({"name": "Handbook", "tag_ids": ["hr"], "text_analyzer": "lucene.english"})

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
    refuse_sensitive: bool = Field(default=False, description=_REFUSE_SENSITIVE)
    rate_limits: RateLimits = Field(
        default=RateLimits(),
        description="Limits of the calls that embed texts of this knowledge base, in addition to those of the "
        "provider.",
    )


class ChangeKnowledgeBase(StrictModel):
    """Changes of a knowledge base. Fields that are left out do not change."""

    model_config = example({"description": "Rules for employees.", "coalesce_neighbors": 1})

    name: Name = optional_change()
    description: Description = optional_change()
    tag_ids: KnowledgeBaseTagIds = optional_change(
        "Tags of the knowledge base: every document with one of them belongs to it."
    )
    coalesce_neighbors: CoalesceNeighbors = optional_change(
        "Number of chunks on each side of a match that a search returns, unless the search says otherwise."
    )
    min_score: MinScore | None = optional_change(
        "Default of `min_score` of searches, from 0 to 1: smallest relevance of matches that only the vector "
        "index found. null: no minimum."
    )
    filterable_metadata: FilterableMetadata = optional_change(
        "Metadata keys for which filters can also use `$ne`, `$nin` and the operators of order."
    )
    max_chunks_per_document: MaxChunks = optional_change(
        "Greatest number of chunks of a document, at most the limit of the deployment. 0 means this limit."
    )
    refuse_sensitive: bool = optional_change(_REFUSE_SENSITIVE)
    rate_limits: RateLimits = optional_change(
        "Limits of the calls that embed texts of this knowledge base, in addition to those of the provider."
    )


class RateLimitsView(BaseModel):
    requests_per_minute: int | None = Field(default=None, description="Limit of requests a minute; null: no limit.")
    tokens_per_minute: int | None = Field(default=None, description="Limit of tokens a minute; null: no limit.")


class KnowledgeBaseView(BaseModel):
    model_config = example(_KNOWLEDGE_BASE)

    kb_id: str
    kind: Literal["documents", "knowledge"] = Field(
        default="documents",
        description="`knowledge`: the one knowledge base of the organization that contains its entries. It is made "
        "with the first entry, can't be deleted, and keeps its tag.",
    )
    name: str
    description: str
    tag_ids: list[str] = Field(description="Tags of the knowledge base: every document with one of them belongs to it.")
    dead_tag_ids: list[str] = Field(description="Tags of `tag_ids` that were deleted. Documents may still have them.")
    chunker_type: str
    chunk_size: int = Field(description="Greatest number of tokens of a chunk.")
    chunk_overlap: int = Field(description="Number of tokens of the previous chunk that a chunk repeats.")
    embedding_model: str
    embedding_dimensions: int = Field(
        description="Number of dimensions of a vector; 0 until the embedding model has been asked."
    )
    coalesce_neighbors: int = Field(
        description="Number of chunks on each side of a match that a search returns by default."
    )
    min_score: float | None = Field(description="Default of `min_score` of searches; null: no minimum.")
    text_analyzer: str = Field(description="Atlas Search analyzer of the text index.")
    text_normalization: int = Field(
        description="Version of the normalization of texts. 2 replaces ligatures, removes soft hyphens and shortens "
        "long white space; with 3, other usual spellings of identifiers, numbers, dates and words with accents are "
        "found as well; 1, of older knowledge bases, changes nothing."
    )
    filterable_metadata: list[str] = Field(description="Metadata keys for which filters can use all operators.")
    max_chunks_per_document: int = Field(
        description="Greatest number of chunks of a document. A document with more is not indexed."
    )
    refuse_sensitive: bool = Field(default=False, description=_REFUSE_SENSITIVE)
    rate_limits: RateLimitsView
    status: ShownStatus = Field(
        description="`creating` and `building` while the search indexes are built, `indexing` while documents are "
        "added or removed, then `active`; `error` if an index failed."
    )
    status_reason: str | None = Field(description="Explanation of the status, if it needs one.")
    paused_at: datetime | None = Field(
        description="Time at which the knowledge base was paused; null if it is not paused."
    )
    index_rebuild: Literal["requested", "building"] | None = Field(
        description="State of the rebuild of the search indexes: `requested`, then `building` until both are built, "
        "also while `status` is `error` because one failed; null if there is none."
    )
    warnings: list[str] = Field(
        description="Warnings about the configuration, also if `text_analyzer` does not fit the language of the "
        "documents. That is looked at within minutes after documents have come, changed or gone."
    )
    document_count: int = Field(description="Number of indexed documents.")
    chunk_count: int = Field(description="Number of searchable chunks.")
    created_at: datetime
    updated_at: datetime
    created_by: str = Field(
        description="Id of the API key that created the knowledge base; `import:` and the id of the export after "
        "`kb import`."
    )
    updated_by: str = Field(description="Id of the API key that made the last change.")
    last_searched_at: datetime | None = Field(description="Time of the last search; null if there was none.")


class KnowledgeBaseList(BaseModel):
    model_config = example({"knowledge_bases": [_KNOWLEDGE_BASE], "total_count": 1, "allowed_count": 20})

    knowledge_bases: list[KnowledgeBaseView]
    total_count: int = Field(description="Number of items on all pages.")
    allowed_count: int | None = Field(
        default=None,
        description="Number of knowledge bases that an organization may have, without that of its entries; null if it "
        "is not known.",
    )


class SearchIndexView(BaseModel):
    name: str
    status: str = Field(description="Status as MongoDB reports it, such as `READY`.")
    queryable: bool = Field(description="Whether the index can answer searches.")


class StateCounts(BaseModel):
    """Documents of a knowledge base by state. One that is indexed again counts in two states."""

    indexed: int = Field(description="Documents with searchable chunks.")
    empty: int = Field(description="Documents whose text has no words.")
    pending: int = Field(description="Documents that wait for their turn or for the next attempt.")
    running: int = Field(description="Documents that are being indexed.")
    waiting_for_text: int = Field(description="Documents whose tags have come, but not their text.")
    failed: int = Field(description="Documents whose last attempt failed and that are not tried again.")
    paused: int = Field(description="Documents that wait for the knowledge base to be resumed.")


class StorageView(BaseModel):
    """Sizes of the chunks with their vectors in MongoDB. It does not tell the sizes of search indexes."""

    chunk_bytes: int = Field(description="Size of the chunks before compression, with those that were replaced lately.")
    stored_bytes: int = Field(description="Size of the chunks on disk.")
    index_bytes: int = Field(description="Size of the indexes in `indexes` together.")
    indexes: dict[str, int] = Field(description="Size in bytes of each index by name.")


class KnowledgeBaseStats(BaseModel):
    model_config = example(
        {
            "document_count": 42,
            "chunk_count": 1250,
            "total_documents_with_tags": 43,
            "states": {
                "indexed": 41,
                "empty": 1,
                "pending": 1,
                "running": 0,
                "waiting_for_text": 0,
                "failed": 0,
                "paused": 0,
            },
            "progress": 0.977,
            "remaining_chunk_count": 30,
            "eta_s": 4.5,
            "more_arriving": False,
            "last_indexed_at": "2026-01-31T12:00:00Z",
            "mean_indexing_s": 0.412,
            "cache_hit_ratio": 0.25,
            "spus": 1250,
            "usd": 0.0131,
            "spus_this_month": 250,
            "usd_this_month": 0.0026,
            "storage": {
                "chunk_bytes": 4_200_000,
                "stored_bytes": 3_100_000,
                "index_bytes": 110_592,
                "indexes": {"_id_": 65_536, "document_id_1_since_1": 45_056},
            },
            "search_indexes": [
                {"name": "kb_vector_index", "status": "READY", "queryable": True},
                {"name": "kb_text_index", "status": "READY", "queryable": True},
            ],
        }
    )

    document_count: int = Field(description="Number of indexed documents.")
    chunk_count: int = Field(description="Number of searchable chunks.")
    total_documents_with_tags: int = Field(description="Number of documents that have a tag of the knowledge base.")
    states: StateCounts
    progress: float = Field(
        description="Share of the chunks, from 0 to 1, that need no more work; those of documents that are not cut yet "
        "are estimated by the lengths of their texts. 1 if no document waits."
    )
    remaining_chunk_count: int = Field(
        default=0, description="Estimated number of chunks that still have to be indexed, refreshed or removed."
    )
    eta_s: float | None = Field(
        description="Estimated seconds until no document waits, at the pace at which the embedding model gave vectors "
        "last, in this knowledge base or another one; null if none waits, no pace is known, the knowledge base is "
        "paused, all that is left waits after an error, or `more_arriving`."
    )
    more_arriving: bool = Field(
        default=False,
        description="Whether document events are read later than they were published, so that more documents may be on "
        "their way: `progress` and `remaining_chunk_count` count those that have arrived.",
    )
    last_indexed_at: datetime | None = Field(description="Time at which a document was last indexed; null if none was.")
    mean_indexing_s: float | None = Field(
        description="Mean seconds to chunk and embed a document, of the last 1,000 that were indexed; null if none was."
    )
    cache_hit_ratio: float | None = Field(
        description="Share of the vectors of the same documents, from 0 to 1, that were paid for before; null if there "
        "are none."
    )
    spus: int = Field(description="SPUs charged for the knowledge base so far.")
    usd: float = Field(description="Cost of the knowledge base so far in US dollars, with its searches.")
    spus_this_month: int = Field(default=0, description="Part of `spus` that was charged in this month, in UTC.")
    usd_this_month: float = Field(default=0, description="Part of `usd` that was charged in this month, in UTC.")
    storage: StorageView | None = Field(description="Sizes in MongoDB; null until there is something stored.")
    search_indexes: list[SearchIndexView]
