"""Creates a KB: everything is checked and the model asked before the first write, and all rows come in one commit."""

from collections.abc import Sequence
from typing import Final

from kb_api import organizations
from kb_api.knowledge_base_request import CreateKnowledgeBase
from kb_api.services import Services
from kb_api.source import SOURCE
from kb_contracts.outcomes import KnowledgeBaseCreated
from kb_shared.concurrency.fair_queue import turn_set_aside
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import OutcomeUnknown, ProviderKeyMissing, ProviderRefused, RequestError, UnknownModel
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import DEFAULT_RETRY_AFTER_S, invalid_field
from kb_shared.identifiers import new_kb_id
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import backfills, kb_slots, knowledge_bases, tags
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.observability import tracing
from kb_shared.stored_time import now
from kb_shared.text import text_normalization

# What the indexer's chunkers do, on which a test keeps us.
MIN_OWN_TOKENS: Final = 16
"""A chunk has beside the overlap, at least."""
HEADING_TOKENS: Final = 64
"""Embedded with a chunk in addition to `chunk_size`, at most."""
LATE: Final = "late"
CHUNKERS: Final = ("recursive", "sentence", "token", "word", "semantic", "sdpm", LATE)


async def create_knowledge_base(api: Services, caller: Caller, asked: CreateKnowledgeBase) -> KnowledgeBase:
    """Return the new KB, whose search indexes are built and whose documents are indexed from now on.

    Raises:
        RequestError: 422 `validation-error`, `chunker-unavailable`, `unknown-tag`, `unknown-model`,
            `provider-key-missing`, `provider-refused`; 409 `kb-limit`; 503 `outcome-unknown`.
        ProviderUnavailable: the model can't be asked now.
    """
    _require_chunker(api, asked.chunker_type)
    chunk_size, chunk_overlap = _chunk_sizes(api, asked)
    max_chunks = allowed_max_chunks(api, asked.max_chunks_per_document)
    tag_ids = await known_tags(api.database, caller.organization_id, asked.tag_ids)
    # Asked again in the transaction; here it saves the embedding.
    await _require_room(api, caller.organization_id)
    model = _model(api, asked)
    dimensions = await _detect_dimensions(api, caller, model)
    kb_id, created_at = new_kb_id(), now()
    kb = KnowledgeBase(
        kb_id=kb_id,
        organization_id=caller.organization_id,
        name=asked.name,
        description=asked.description,
        tag_ids=tag_ids,
        tags_version=1,
        chunker_type=asked.chunker_type,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        embedding_model=model,
        embedding_dimensions=dimensions,
        max_chunks_per_document=max_chunks,
        status=Status.CREATING,
        status_reason=None,
        vector_collection=knowledge_bases.collection_name(kb_id),
        created_at=created_at,
        updated_at=created_at,
        created_by=caller.key_id,
        updated_by=caller.key_id,
        coalesce_neighbors=asked.coalesce_neighbors,
        min_score=asked.min_score,
        text_analyzer=asked.text_analyzer,
        text_normalization=text_normalization.CURRENT,
        filterable_metadata=tuple(dict.fromkeys(asked.filterable_metadata)),
        rate_limits=asked.rate_limits.model_dump(exclude_none=True),
        warnings=await _warnings(api, caller, model, chunk_size),
    )
    await _store(api, kb)
    api.life_cycle.wake()
    return kb


async def _store(api: Services, kb: KnowledgeBase) -> None:
    async def store(session: MongoSession) -> None:
        await organizations.fence(api.database, session, kb.organization_id)
        await _require_room(api, kb.organization_id, session)
        await knowledge_bases.insert(api.database, session, kb)
        await kb_slots.create(api.database, session, kb.organization_id, kb.kb_id, kb.tags_version)
        await backfills.start(api.database, session, kb.organization_id, kb.kb_id, traceparent=tracing.current())
        outcome = KnowledgeBaseCreated(organization_id=kb.organization_id, kb_id=kb.kb_id)
        await announce(api.database, session, Announcement(outcome, seq=1), source=SOURCE)

    async with api.locks.lock(kb.organization_id):
        try:
            await in_transaction(api.database, store)
        except OutcomeUnknown as error:
            # Sent again, it would be a second KB.
            raise RequestError(
                503,
                "outcome-unknown",
                "The database did not confirm the new knowledge base in time. GET /knowledge-bases/{kb_id} with the "
                "`kb_id` of this answer tells whether it was made; if it is 404, create it again.",
                retry_after_s=DEFAULT_RETRY_AFTER_S,
                extra={"kb_id": kb.kb_id},
            ) from error


async def _require_room(api: Services, organization_id: str, session: MongoSession | None = None) -> None:
    limit = api.settings.max_knowledge_bases
    if await knowledge_bases.count(api.database, organization_id, session) >= limit:
        raise RequestError(
            409,
            "kb-limit",
            f"This organization has {limit} knowledge bases, the most there may be; delete one first.",
            extra={"limit": limit},
        )


async def known_tags(database: Database, organization_id: str, tag_ids: Sequence[str]) -> tuple[str, ...]:
    """`tag_ids` without doubles; 422 if nobody has ever named one of them."""
    distinct = tuple(dict.fromkeys(tag_ids))
    unknown = sorted(await tags.unknown(database, organization_id, distinct))
    if unknown:
        raise RequestError(
            422,
            "unknown-tag",
            f"No such tag: {', '.join(unknown)}. POST /tags, or tag a document with it first.",
            extra={"tag_ids": unknown},
        )
    return distinct


def allowed_max_chunks(api: Services, asked: int | None) -> int:
    """Return the limit of a KB, which is never above the deployment's: that is meant by 0 and None."""
    limit = api.settings.max_chunks_per_document
    if asked is not None and asked > limit:
        raise invalid_field("max_chunks_per_document", f"Input should be less than or equal to {limit}")
    return asked or limit


def _require_chunker(api: Services, chunker_type: str) -> None:
    if chunker_type != LATE or api.settings.late_models:
        return
    available = [chunker for chunker in CHUNKERS if chunker != LATE]
    raise RequestError(
        422,
        "chunker-unavailable",
        "The late chunker is not available here: it takes a model inside the services (sentence-transformers), "
        f"which an operator names in KB_LATE_MODELS. Choose another chunker_type: {', '.join(available)}.",
        extra={"available": available},
    )


def _model(api: Services, asked: CreateKnowledgeBase) -> str:
    """The chunker and the model must fit: a late one sees each chunk in its surroundings, others the chunk alone."""
    late_models = api.settings.late_models
    if asked.chunker_type != LATE:
        if asked.embedding_model in late_models:
            raise invalid_field("embedding_model", "Goes with chunker_type late only")
        return asked.embedding_model or api.settings.embedding_model
    if asked.embedding_model is not None and asked.embedding_model not in late_models:
        raise invalid_field("embedding_model", f"chunker_type late takes one of: {', '.join(late_models)}")
    return asked.embedding_model or next(iter(late_models))


def _chunk_sizes(api: Services, asked: CreateKnowledgeBase) -> tuple[int, int]:
    size = asked.chunk_size or api.settings.default_chunk_size
    overlap = asked.chunk_overlap
    if asked.chunker_type == LATE:
        if overlap:
            raise invalid_field("chunk_overlap", "Input should be 0 with chunker_type late, which sees what is around")
        return size, 0
    if overlap is None:
        # Whoever asks for small chunks only should not have to think of the overlap.
        overlap = min(api.settings.default_chunk_overlap, size // 4)
    if size - overlap < MIN_OWN_TOKENS:
        raise invalid_field(
            "chunk_overlap",
            f"Input should leave a chunk {MIN_OWN_TOKENS} tokens of its own: at most {size - MIN_OWN_TOKENS} with a "
            f"chunk_size of {size}",
        )
    return size, overlap


async def _detect_dimensions(api: Services, caller: Caller, model: str) -> int:
    purpose = Purpose(organization_id=caller.organization_id, kb_id=None, operation="index", input_type="document")
    try:
        async with turn_set_aside():
            return await api.embedder.detect_dimensions(model=model, purpose=purpose)
    except UnknownModel as error:
        raise RequestError(422, "unknown-model", f"{error}; choose another embedding_model.") from None
    except ProviderKeyMissing as error:
        raise RequestError(422, "provider-key-missing", f"{error}; ask your operator to set it.") from None
    except ProviderRefused as error:
        raise RequestError(
            422, "provider-refused", f"{error}; choose another embedding_model, or ask your operator."
        ) from None


async def _warnings(api: Services, caller: Caller, model: str, chunk_size: int) -> tuple[str, ...]:
    limit = (await api.models.get(caller.organization_id, model)).max_input_tokens
    if limit is None or chunk_size + HEADING_TOKENS <= limit:
        return ()
    longest = f"chunk_size {chunk_size} and the up to {HEADING_TOKENS} tokens of headings embedded with a chunk"
    beginning_only = "of longer chunks only the beginning is searchable by meaning"
    return (f"{longest} are together above the {limit} tokens that {model} reads: {beginning_only}.",)
