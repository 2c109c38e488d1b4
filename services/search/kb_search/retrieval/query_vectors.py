"""Turns a query into the vectors of the models that KBs use."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from kb_search.concurrent_tasks import run_all
from kb_search.retrieval.spu_tally import note_embedded
from kb_shared.concurrency.fair_queue import turn_set_aside
from kb_shared.embedding.embedder import BeforePaying, Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import (
    BudgetExhausted,
    KbError,
    Parked,
    PermanentError,
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

_FOR_OPERATORS = frozenset({"provider_auth", "provider_key_missing", "provider_quota"})


@dataclass(frozen=True, slots=True)
class NoVector:
    """Why a query has no vector."""

    error: KbError
    is_providers: bool
    """Nothing is wrong with the query, the KB or the budget: its provider does not answer, or refuses its key."""


async def embed_query(
    embedder: Embedder,
    text: str,
    kbs: Iterable[KnowledgeBase],
    *,
    within_s: float | None,
    before_paying: BeforePaying,
) -> dict[str, Vector | NoVector]:
    """Embed a query once for each model, charged to the first KB that has it; one that was asked lately costs nothing.

    It is normalized as the texts of the KB are.

    Args:
        within_s: how long a provider is waited for; None: for as long as a call to it may take.

    Returns:
        By KB id; the others can be searched where a model had no vector. What `before_paying` raises is raised.
    """
    alike: dict[tuple[str, int, str], list[KnowledgeBase]] = {}
    for kb in kbs:
        normalized = for_model(text, kb.text_normalization)
        alike.setdefault((kb.embedding_model, kb.embedding_dimensions, normalized), []).append(kb)
    outcomes = await run_all(
        _embed(embedder, normalized, those[0], within_s, before_paying) for (_, _, normalized), those in alike.items()
    )
    return {kb.kb_id: outcome for those, outcome in zip(alike.values(), outcomes, strict=True) for kb in those}


async def _embed(
    embedder: Embedder, text: str, kb: KnowledgeBase, within_s: float | None, before_paying: BeforePaying
) -> Vector | NoVector:
    purpose = Purpose(kb.organization_id, kb.kb_id, operation="search", input_type="query")
    try:
        async with turn_set_aside(), asyncio.timeout(within_s):
            embedded = await embedder.embed(
                [text],
                model=kb.embedding_model,
                dimensions=kb.embedding_dimensions,
                purpose=purpose,
                before_paying=before_paying,
            )
    except TimeoutError:
        late = ProviderUnavailable(
            f"the provider of {kb.embedding_model!r} did not answer in time", error_type="provider_timeout"
        )
        return NoVector(late, is_providers=True)
    except (ProviderRefused, UnknownModel) as error:
        return NoVector(_not_embedded(error), is_providers=isinstance(error, ProviderKeyRefused))
    except (TransientError, Parked) as error:
        is_organizations = isinstance(error, BudgetExhausted | UnknownPrice)
        return NoVector(error, is_providers=isinstance(error, ProviderUnavailable | Parked) and not is_organizations)
    note_embedded(embedded)
    return embedded.vectors[0]


def _not_embedded(error: PermanentError) -> RequestError:
    if isinstance(error, UnknownModel) or error.error_type in _FOR_OPERATORS:
        return RequestError(
            503,
            "provider-refused",
            "The embedding provider can't be used with the model and key of this knowledge base; "
            "tell the operator of this deployment.",
            retry_after_s=60,
        )
    return RequestError(422, "query-refused", "The embedding provider refuses this query; shorten or reword it.")
