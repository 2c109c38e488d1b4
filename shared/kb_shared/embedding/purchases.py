"""Stores vectors that were paid for and charges for them in one transaction, so that SPUs equal stored embeddings."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from time import monotonic
from typing import Final, Literal
from uuid import uuid4

import stamina
from pymongo.errors import PyMongoError

from kb_contracts.outcomes import SpuCharged
from kb_shared.errors import TransientError
from kb_shared.failpoints import reach
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import embedding_cache, spu_ledger
from kb_shared.mongo.database import TRANSACTION_WITHIN_S, Database, MongoSession, in_transaction
from kb_shared.mongo.embedding_cache import NewVector, VectorSpace
from kb_shared.mongo.spu_ledger import Charge
from kb_shared.mongo.vector import Vector, to_binary
from kb_shared.observability.metrics import EMBEDDINGS_GENERATED, EMBEDDINGS_LOST, SPU_CHARGED
from kb_shared.providers.known_providers import InputType

SOURCE: Final = "/kb/embedding"
STORE_PATIENCE_S: Final = 12.0
"""Time limit of storing. A caller over HTTP that waits for it gets its 503 within 15 s."""
_SHORTEST_ATTEMPT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Purpose:
    """Payer and reason of an embedding."""

    organization_id: str
    kb_id: str | None
    operation: Literal["index", "search"]
    input_type: InputType
    short_lived: bool = False
    """True if the vector is kept for seven days only, because it is seldom needed again."""


@dataclass(frozen=True, slots=True)
class BoughtVector:
    """A vector that a provider has returned, and who pays for it."""

    chunk_hash: str
    vector: Vector
    purpose: Purpose
    nano_usd: int = 0
    """Price; 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """The vectors of one answer, all of one organization."""

    bought: Sequence[BoughtVector]
    space: VectorSpace
    lifetime: timedelta
    label: str
    """Name of the model, for metrics."""


async def store_purchase(database: Database, purchase: Purchase) -> set[str]:
    """Store and charge vectors; return the chunk hashes of those that were new and therefore charged.

    Raises:
        TransientError: nothing could be stored for 12 s; the vectors are lost, and counted.
    """
    # Made before the first attempt: a commit whose outcome was unknown does not charge again.
    ledger_ids = {bought.purpose: str(uuid4()) for bought in purchase.bought}
    attempts = count(1)

    async def work(session: MongoSession) -> set[str]:
        # The cache was asked before the provider: only another replica can have bought one of them since.
        return await _store_and_charge(database, session, purchase, ledger_ids=ledger_ids, all_new=next(attempts) == 1)

    end = monotonic() + STORE_PATIENCE_S
    try:
        async for attempt in stamina.retry_context(
            on=(TransientError, PyMongoError), attempts=None, timeout=STORE_PATIENCE_S, wait_max=2.0
        ):
            with attempt:
                stored = await in_transaction(
                    database, work, within_s=min(TRANSACTION_WITHIN_S, max(_SHORTEST_ATTEMPT_S, end - monotonic()))
                )
    except (TransientError, PyMongoError) as error:
        EMBEDDINGS_LOST.labels(purchase.label).inc(len(purchase.bought))
        raise TransientError("vectors were generated and could not be stored") from error
    EMBEDDINGS_GENERATED.labels(purchase.label).inc(len(stored))
    for bought in purchase.bought:
        if bought.chunk_hash in stored:
            SPU_CHARGED.labels(bought.purpose.operation).inc()
    return stored


async def _store_and_charge(
    database: Database, session: MongoSession, purchase: Purchase, *, ledger_ids: Mapping[Purpose, str], all_new: bool
) -> set[str]:
    rows = [
        NewVector(bought.chunk_hash, to_binary(bought.vector), ledger_ids[bought.purpose]) for bought in purchase.bought
    ]
    new = await embedding_cache.store(
        database, session, purchase.space, vectors=rows, lifetime=purchase.lifetime, all_new=all_new
    )
    if not new:
        # Others were first and paid, or an earlier attempt of ours was committed without our hearing of it.
        hashes = [bought.chunk_hash for bought in purchase.bought]
        return await embedding_cache.find_paid_by(
            database, session, purchase.space, chunk_hashes=hashes, ledger_ids=ledger_ids.values()
        )
    charges = _charges(new, ledger_ids, purchase)
    await spu_ledger.charge(database, session, charges)
    await announce(database, session, *map(_build_announcement, charges), source=SOURCE)
    await reach("embed.before_store_commit")
    return {vector.chunk_hash for vector in new}


def _charges(new: Collection[NewVector], ledger_ids: Mapping[Purpose, str], purchase: Purchase) -> list[Charge]:
    price_of = {bought.chunk_hash: bought.nano_usd for bought in purchase.bought}
    counts, prices = Counter[str](), Counter[str]()
    for vector in new:
        counts[vector.ledger_id] += 1
        prices[vector.ledger_id] += price_of[vector.chunk_hash]
    return [
        Charge(
            ledger_id,
            purpose.organization_id,
            purpose.kb_id,
            purpose.operation,
            purchase.space.model,
            counts[ledger_id],
            prices[ledger_id],
        )
        for purpose, ledger_id in ledger_ids.items()
        if counts[ledger_id]
    ]


def _build_announcement(charge: Charge) -> Announcement:
    assert charge.operation != "chat", "chat is charged elsewhere"
    charged = SpuCharged(
        ledger_id=charge.ledger_id,
        organization_id=charge.organization_id,
        kb_id=charge.kb_id,
        operation=charge.operation,
        model=charge.model,
        count=charge.count,
    )
    return Announcement(charged, seq=0)
