"""Embeds a query with the models of the KBs that are searched."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from kb_search.retrieval.spu_tally import count_query_embedding
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.embedding.embedder import BeforePaying, Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.vector_origin import VectorOrigin, origin_of
from kb_shared.errors import (
    BudgetExhausted,
    KbError,
    Parked,
    PermanentError,
    ProviderIncompatible,
    ProviderKeyRefused,
    ProviderRefused,
    ProviderUnavailable,
    RequestError,
    TransientError,
    UnknownModel,
    UnknownPrice,
)
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vector import Vector
from kb_shared.text.text_normalization import for_model

_FOR_OPERATORS = frozenset({"provider_auth", "provider_incompatible", "provider_key_missing", "provider_quota"})


@dataclass(frozen=True, slots=True)
class MissingVector:
    """The reason why a query has no vector."""

    error: KbError
    is_provider_failure: bool
    """True if the provider gives no answer or not its own, or refuses its key: the query is not the cause."""


async def embed_query(
    embedder: Embedder,
    text: str,
    kbs: Iterable[KnowledgeBase],
    *,
    within_s: float | None,
    before_paying: BeforePaying,
) -> dict[str, Vector | MissingVector]:
    """Embed a query once for each model, charged to the first KB with that model. A cached vector costs nothing.

    The query is normalized like the texts of the KB.

    Args:
        within_s: Seconds to wait for a provider; None to wait as long as its calls may take.
        before_paying: Called before a provider is called; what it raises is raised.

    Returns:
        The vector by KB id, or why there is none; KBs with other models can still be searched.
    """
    same_model: dict[tuple[str, int, str, VectorOrigin | None], list[KnowledgeBase]] = {}
    for kb in kbs:
        normalized = for_model(text, kb.text_normalization)
        space = (kb.embedding_model, kb.embedding_dimensions, normalized, origin_of(kb))
        same_model.setdefault(space, []).append(kb)
    outcomes = await run_all(
        _embed(embedder, normalized, group[0], within_s=within_s, before_paying=before_paying)
        for (_, _, normalized, _), group in same_model.items()
    )
    return {kb.kb_id: outcome for group, outcome in zip(same_model.values(), outcomes, strict=True) for kb in group}


async def _embed(
    embedder: Embedder, text: str, kb: KnowledgeBase, *, within_s: float | None, before_paying: BeforePaying
) -> Vector | MissingVector:
    purpose = Purpose(kb.organization_id, kb.kb_id, operation="search", input_type="query")
    try:
        async with pause_turn(), asyncio.timeout(within_s):
            embedded = await embedder.embed(
                [text],
                model=kb.embedding_model,
                dimensions=kb.embedding_dimensions,
                purpose=purpose,
                origin=origin_of(kb),
                before_paying=before_paying,
            )
    except TimeoutError:
        late = ProviderUnavailable(
            f"the provider of {kb.embedding_model!r} did not answer in time", error_type="provider_timeout"
        )
        return MissingVector(late, is_provider_failure=True)
    except (ProviderRefused, UnknownModel) as error:
        # A page instead of JSON says nothing about the query, and the next answer may be one.
        is_of_provider = isinstance(error, ProviderKeyRefused | ProviderIncompatible)
        return MissingVector(_map_embedding_error(error), is_provider_failure=is_of_provider)
    except (TransientError, Parked) as error:
        is_budget = isinstance(error, BudgetExhausted | UnknownPrice)
        return MissingVector(
            error, is_provider_failure=isinstance(error, ProviderUnavailable | Parked) and not is_budget
        )
    count_query_embedding(embedded)
    return embedded.vectors[0]


def _map_embedding_error(error: PermanentError) -> RequestError:
    if isinstance(error, UnknownModel) or error.error_type in _FOR_OPERATORS:
        return RequestError(
            503,
            "provider-refused",
            "The embedding provider can't be used with the model and key of this knowledge base; "
            "tell the operator of this deployment.",
            retry_after_s=60,
        )
    return RequestError(422, "query-refused", "The embedding provider refuses this query; shorten or reword it.")
