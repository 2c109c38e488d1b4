"""Creates a KB: checks everything and asks the model before the first write, then writes all rows in one commit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from kb_api.knowledge_base_response import knowledge_base_view
from kb_api.life_cycle import LifeCycle
from kb_api.reserved_ids import require_own_tag_ids
from kb_api.settings import ApiSettings
from kb_api.source import SOURCE
from kb_contracts.api.knowledge_bases import CreateKnowledgeBase
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.concurrency.keyed_locks import KeyedLocks
from kb_shared.embedding.embedder import DetectedVectors, Embedder
from kb_shared.embedding.organization_models import OrganizationModels
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import (
    OutcomeUnknown,
    ProviderKeyMissing,
    ProviderRefused,
    ProviderUnavailable,
    RequestError,
    UnknownModel,
)
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.http.problems import DEFAULT_RETRY_AFTER_S, invalid_field
from kb_shared.identifiers import new_kb_id
from kb_shared.messaging.new_knowledge_bases import store_new_knowledge_base
from kb_shared.mongo import knowledge_bases, organizations, tags
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.stored_time import now
from kb_shared.text import text_normalization

# As in the indexer's chunkers; a test compares them.
MIN_OWN_TOKENS: Final = 16
"""Smallest number of tokens of a chunk beside the overlap."""
HEADING_TOKENS: Final = 64
"""Greatest number of tokens of headings that are embedded with a chunk, in addition to `chunk_size`."""
LATE: Final = "late"
CHUNKERS: Final = ("recursive", "sentence", "token", "word", "semantic", "sdpm", LATE)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings of a KB that decide what is embedded of a document."""

    chunker_type: str
    chunk_size: int
    chunk_overlap: int
    embedding_model: str
    max_chunks_per_document: int
    text_normalization: int = text_normalization.CURRENT

    @classmethod
    def from_knowledge_base(cls, kb: KnowledgeBase) -> "IndexSettings":
        return cls(**{name: getattr(kb, name) for name in cls.__slots__})


class KnowledgeBaseCreator:
    """Creates KBs."""

    def __init__(self, settings: ApiSettings, database: Database, *, embedder: Embedder, life_cycle: LifeCycle) -> None:
        self._settings = settings
        self._database = database
        self._embedder = embedder
        self._life_cycle = life_cycle
        self._locks = KeyedLocks()

    async def create(self, caller: Caller, requested: CreateKnowledgeBase) -> KnowledgeBase:
        """Create a KB. From now on its search indexes are built and its documents are indexed.

        Raises:
            RequestError: 422 `validation-error`, `chunker-unavailable`, `unknown-tag`, `unknown-model`,
                `provider-key-missing`, `provider-refused`; 409 `kb-limit`; 503 `outcome-unknown`.
            ProviderUnavailable: the model can't be requested now.
        """
        chosen = choose_settings(self._settings, requested)
        tag_ids = await require_known_tags(self._database, caller.organization_id, tag_ids=requested.tag_ids)
        # Checked again in the transaction; here it saves the embedding.
        await self._require_quota(caller.organization_id)
        detected = await self._detect_vectors(caller.organization_id, chosen.embedding_model)
        kb_id, created_at = new_kb_id(), now()
        kb = KnowledgeBase(
            kb_id=kb_id,
            organization_id=caller.organization_id,
            name=requested.name,
            description=requested.description,
            tag_ids=tag_ids,
            tags_version=1,
            chunker_type=chosen.chunker_type,
            chunk_size=chosen.chunk_size,
            chunk_overlap=chosen.chunk_overlap,
            embedding_model=chosen.embedding_model,
            embedding_dimensions=detected.dimensions,
            vector_fingerprint=detected.origin.fingerprint,
            vector_sample=detected.origin.sample,
            max_chunks_per_document=chosen.max_chunks_per_document,
            status=Status.CREATING,
            status_reason=None,
            vector_collection=knowledge_bases.build_collection_name(kb_id),
            created_at=created_at,
            updated_at=created_at,
            created_by=caller.key_id,
            updated_by=caller.key_id,
            coalesce_neighbors=requested.coalesce_neighbors,
            min_score=requested.min_score,
            refuse_sensitive=requested.refuse_sensitive,
            text_analyzer=requested.text_analyzer,
            text_normalization=chosen.text_normalization,
            filterable_metadata=tuple(dict.fromkeys(requested.filterable_metadata)),
            rate_limits=requested.rate_limits.model_dump(exclude_none=True),
            warnings=await find_warnings(self._embedder.models, caller.organization_id, chosen),
        )
        await self._store(kb)
        self._life_cycle.wake()
        return kb

    async def _store(self, kb: KnowledgeBase) -> None:
        async def store(session: MongoSession) -> None:
            await organizations.serialize_transactions(self._database, session, kb.organization_id)
            await self._require_quota(kb.organization_id, session)
            await store_new_knowledge_base(self._database, session, kb, source=SOURCE)

        shown = knowledge_base_view(kb, documents=0, chunks=0)
        async with self._locks.lock(kb.organization_id):
            try:
                await commit_change(self._database, store, answer=lambda _: shown)
            except OutcomeUnknown as error:
                # A repeated request would create a second KB.
                raise RequestError(
                    503,
                    "outcome-unknown",
                    "The database did not confirm the new knowledge base in time. Check whether it exists with GET "
                    "/knowledge-bases/{kb_id} and the `kb_id` of this response; create it again if that returns 404.",
                    retry_after_s=DEFAULT_RETRY_AFTER_S,
                    extra={"kb_id": kb.kb_id},
                ) from error

    async def _require_quota(self, organization_id: str, session: MongoSession | None = None) -> None:
        limit = self._settings.max_knowledge_bases
        if await knowledge_bases.count(self._database, organization_id, session) >= limit:
            raise RequestError(
                409,
                "kb-limit",
                f"This organization has {limit} knowledge bases, which is the limit; delete one first.",
                extra={"limit": limit},
            )

    async def _detect_vectors(self, organization_id: str, model: str) -> DetectedVectors:
        with model_refusals():
            async with pause_turn():
                return await self._embedder.detect_vectors(model=model, purpose=indexing(organization_id))


def indexing(organization_id: str) -> Purpose:
    """Return the purpose of embeddings of documents for a KB that does not exist yet."""
    return Purpose(organization_id=organization_id, kb_id=None, operation="index", input_type="document")


@contextmanager
def model_refusals() -> Iterator[None]:
    """Turn the errors of a model that the organization can't use into 422, with what to do about it."""
    try:
        yield
    except UnknownModel as error:
        raise RequestError(422, "unknown-model", f"{error}; choose another embedding_model.") from None
    except ProviderKeyMissing as error:
        raise RequestError(422, "provider-key-missing", f"{error}; ask your operator to set it.") from None
    except ProviderRefused as error:
        raise RequestError(
            422, "provider-refused", f"{error}; choose another embedding_model, or ask your operator."
        ) from None
    except ProviderUnavailable as error:
        if error.error_type != "bad_answer":
            raise
        # Not an outage: the server is there, and its answer would be the same again.
        raise RequestError(
            422, "provider-refused", f"{error}. Check the provider's address, or choose another embedding_model."
        ) from None


async def find_warnings(models: OrganizationModels, organization_id: str, chosen: IndexSettings) -> tuple[str, ...]:
    """Return warnings about settings that are allowed and seldom meant. Raises UnknownModel, ProviderKeyMissing."""
    model, chunk_size = chosen.embedding_model, chosen.chunk_size
    limit = (await models.get(organization_id, model)).max_input_tokens
    if limit is None or chunk_size + HEADING_TOKENS <= limit:
        return ()
    longest = f"chunk_size {chunk_size} and the up to {HEADING_TOKENS} tokens of headings embedded with a chunk"
    beginning_only = "of longer chunks only the beginning is searchable by meaning"
    return (f"{longest} are together above the {limit} tokens that {model} reads: {beginning_only}.",)


async def require_known_tags(database: Database, organization_id: str, *, tag_ids: Sequence[str]) -> tuple[str, ...]:
    """Return `tag_ids` without duplicates. Raises RequestError 422 if one is reserved, or the organization has none."""
    require_own_tag_ids(tag_ids)
    distinct = tuple(dict.fromkeys(tag_ids))
    unknown = sorted(await tags.find_unknown(database, organization_id, tag_ids=distinct))
    if unknown:
        raise RequestError(
            422,
            "unknown-tag",
            f"No such tag: {', '.join(unknown)}. POST /tags, or tag a document with it first.",
            extra={"tag_ids": unknown},
        )
    return distinct


def allowed_max_chunks(requested: int | None, *, limit: int) -> int:
    """Return the limit of a KB: at most the `limit` of the deployment, which 0 and None stand for."""
    if requested is not None and requested > limit:
        raise invalid_field("max_chunks_per_document", f"must be at most {limit}")
    return requested or limit


def choose_settings(settings: ApiSettings, requested: CreateKnowledgeBase) -> IndexSettings:
    """Return the settings of a request, with defaults for what it leaves out.

    Raises:
        RequestError: 422 `validation-error`, `chunker-unavailable`.
    """
    _require_chunker(settings, requested.chunker_type)
    chunk_size, chunk_overlap = _choose_chunk_sizes(settings, requested)
    max_chunks = allowed_max_chunks(requested.max_chunks_per_document, limit=settings.max_chunks_per_document)
    model = _choose_model(settings, requested)
    return IndexSettings(requested.chunker_type, chunk_size, chunk_overlap, model, max_chunks)


def _require_chunker(settings: ApiSettings, chunker_type: str) -> None:
    if chunker_type != LATE or settings.late_models:
        return
    available = [chunker for chunker in CHUNKERS if chunker != LATE]
    raise RequestError(
        422,
        "chunker-unavailable",
        "The late chunker is not available: it needs a model that runs inside the services (sentence-transformers), "
        "and the operator has configured none (KB_LATE_MODELS). Choose another chunker_type: "
        f"{', '.join(available)}.",
        extra={"available": available},
    )


def _choose_model(settings: ApiSettings, requested: CreateKnowledgeBase) -> str:
    """Return the model. The late chunker takes only late models, and other chunkers only other models."""
    late_models = settings.late_models
    if requested.chunker_type != LATE:
        if requested.embedding_model in late_models:
            raise invalid_field("embedding_model", "must be another model: this one works only with chunker_type late")
        return requested.embedding_model or settings.embedding_model
    if requested.embedding_model is not None and requested.embedding_model not in late_models:
        raise invalid_field(
            "embedding_model", f"must be one of these models with chunker_type late: {', '.join(late_models)}"
        )
    return requested.embedding_model or next(iter(late_models))


def _choose_chunk_sizes(settings: ApiSettings, requested: CreateKnowledgeBase) -> tuple[int, int]:
    size = requested.chunk_size or settings.default_chunk_size
    overlap = requested.chunk_overlap
    if requested.chunker_type == LATE:
        if overlap:
            raise invalid_field(
                "chunk_overlap",
                "must be 0 with chunker_type late, whose model sees the text around a chunk anyway",
            )
        return size, 0
    if overlap is None:
        # A request with a small chunk_size alone must not fail because of the default overlap.
        overlap = min(settings.default_chunk_overlap, size // 4)
    if size - overlap < MIN_OWN_TOKENS:
        raise invalid_field(
            "chunk_overlap",
            f"must leave a chunk {MIN_OWN_TOKENS} tokens of its own: at most {size - MIN_OWN_TOKENS} with a "
            f"chunk_size of {size}",
        )
    return size, overlap
