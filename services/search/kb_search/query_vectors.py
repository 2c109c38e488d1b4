"""Turns a query into the vectors of the models that KBs use."""

from collections.abc import Iterable

from kb_search.at_once import all_of
from kb_search.spu_tally import note_charged
from kb_shared.embedding.embedder import BeforePaying, Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.vector import Vector
from kb_shared.errors import (
    KbError,
    Parked,
    PermanentError,
    ProviderRefused,
    RequestError,
    TransientError,
    UnknownModel,
)
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.text_normalization import for_model

_FOR_OPERATORS = frozenset({"provider_auth", "provider_key_missing", "provider_quota"})


async def embed_query(
    embedder: Embedder, text: str, kbs: Iterable[KnowledgeBase], *, before_paying: BeforePaying
) -> dict[str, Vector | KbError]:
    """Embed a query once for each model, charged to the first KB that has it; one that was asked lately costs nothing.

    It is normalized as the texts of the KB are.

    Returns:
        By KB id; the failure of whose model had none: the others can be searched. What `before_paying` raises is
        raised.
    """
    alike: dict[tuple[str, int, str], list[KnowledgeBase]] = {}
    for kb in kbs:
        normalized = for_model(text, kb.text_normalization)
        alike.setdefault((kb.embedding_model, kb.embedding_dimensions, normalized), []).append(kb)
    outcomes = await all_of(
        _embed(embedder, normalized, those[0], before_paying) for (_, _, normalized), those in alike.items()
    )
    return {kb.kb_id: outcome for those, outcome in zip(alike.values(), outcomes, strict=True) for kb in those}


async def _embed(embedder: Embedder, text: str, kb: KnowledgeBase, before_paying: BeforePaying) -> Vector | KbError:
    purpose = Purpose(kb.organization_id, kb.kb_id, operation="search", input_type="query")
    try:
        embedded = await embedder.embed(
            [text],
            model=kb.embedding_model,
            dimensions=kb.embedding_dimensions,
            purpose=purpose,
            before_paying=before_paying,
        )
    except (ProviderRefused, UnknownModel) as error:
        return _not_embedded(error)
    except (TransientError, Parked) as error:
        return error
    note_charged(embedded.generated)
    return embedded.vectors[0]


def _not_embedded(error: PermanentError) -> RequestError:
    if isinstance(error, UnknownModel) or error.error_type in _FOR_OPERATORS:
        return RequestError(
            503,
            "provider-refused",
            "The embedding provider can't be used with the model and key of this knowledge base; "
            "tell whoever runs this deployment.",
            retry_after_s=60,
        )
    return RequestError(422, "query-refused", "The embedding provider refuses this query; shorten or reword it.")
