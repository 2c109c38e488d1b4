import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
import stamina
from prometheus_client import REGISTRY
from pymongo.errors import AutoReconnect

from kb_contracts.cloudevents import decode
from kb_contracts.outcomes import USAGE
from kb_local.model_server.hash_model import text_sha256, vector_of
from kb_shared.embedding import vector_buyer
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.pace import MOST_NEARBY
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.recent_vectors import RecentVectors
from kb_shared.errors import (
    BatchRefused,
    BudgetExhausted,
    Parked,
    ProviderKeyRefused,
    ProviderRefused,
    ProviderUnavailable,
    TransientError,
    UnknownModel,
)
from kb_shared.failpoints import during
from kb_shared.mongo import budgets, embedding_cache, outbox, spu_ledger
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.keys import KnowledgeBaseKey
from tests.integration.embedding.conftest import FaultyProvider
from tests.integration.failing_commands import UNKNOWN_WRITE_CONCERN, unacknowledged
from tests.waiting import until

OTHER_KB = "f" * 24
MODEL: dict[str, Any] = {"model": "hash-16", "dimensions": 16}


def texts(count: int, *, prefix: str = "text") -> list[str]:
    return [f"{prefix} {number}" for number in range(count)]


def counted(metric: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(metric, labels) or 0.0


async def rows(database: Database) -> int:
    return await database[embedding_cache.NAME].count_documents({})


async def test_vectors_come_in_the_order_of_the_texts_and_equal_texts_cost_one(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose
) -> None:
    wanted = ["b", "a", "b", "c", "a", "b"]

    embedded = await embedder.embed(wanted, **MODEL, purpose=indexing)

    assert np.array_equal(embedded.vectors, [vector_of(text, dimensions=16) for text in wanted])
    assert (embedded.generated, embedded.cached) == (3, 0)
    assert await provider.served() == {text_sha256(text): 1 for text in "abc"}


async def test_a_text_that_was_paid_for_once_is_free(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await embedder.embed(["a", "b"], **MODEL, purpose=indexing)

    again = await embedder.embed(["c", "b", "a"], **MODEL, purpose=indexing)

    assert (again.generated, again.cached) == (1, 2)
    assert np.array_equal(again.vectors, [vector_of(text, dimensions=16) for text in "cba"])
    assert set((await provider.served()).values()) == {1}
    assert await spu_ledger.sum_spus(database, "acme") == 3


async def test_an_empty_call_costs_nothing(embedder: Embedder, provider: FaultyProvider, indexing: Purpose) -> None:
    embedded = await embedder.embed([], **MODEL, purpose=indexing)

    assert (embedded.vectors, embedded.generated, embedded.cached) == ([], 0, 0)
    assert await provider.calls() == 0


async def test_ledger_cache_messages_and_metrics_agree(
    embedder: Embedder, indexing: Purpose, database: Database
) -> None:
    charged = counted("kb_spu_charged_total", operation_type="index")
    generated = counted("kb_embeddings_generated_total", model="hash")

    await embedder.embed(texts(230), **MODEL, purpose=indexing)

    messages = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=100)
    announced = [decode(message.value, USAGE)[1] for message in messages]
    ledger = {row["_id"]: row["count"] async for row in database[spu_ledger.NAME].find()}
    assert sorted(ledger.values()) == [30, 100, 100]
    assert {message.ledger_id: message.count for message in announced} == ledger
    assert {(message.topic, message.key) for message in messages} == {("kb-usage", b"acme")}
    assert await rows(database) == 230
    assert counted("kb_spu_charged_total", operation_type="index") - charged == 230
    assert counted("kb_embeddings_generated_total", model="hash") - generated == 230


async def test_the_ledger_says_who_pays_for_what(embedder: Embedder, searching: Purpose, database: Database) -> None:
    await embedder.embed(["a question"], **MODEL, purpose=searching)

    assert await database[spu_ledger.NAME].find_one() == {
        "_id": ANY,
        "organization_id": "acme",
        "kb_id": searching.kb_id,
        "operation": "search",
        "model": "hash-16",
        "count": 1,
        "nano_usd": 0,
        "created_at": ANY,
    }


async def lifetimes(database: Database) -> list[timedelta]:
    """Return the remaining lifetimes of cached vectors, rounded to the hour."""
    found = [row["expires_at"] - datetime.now(UTC) async for row in database[embedding_cache.NAME].find()]
    return sorted(timedelta(hours=round(each / timedelta(hours=1))) for each in found)


async def let_time_pass(database: Database, time: timedelta) -> None:
    earlier = {"$set": {"expires_at": {"$subtract": ["$expires_at", time / timedelta(milliseconds=1)]}}}
    await database[embedding_cache.NAME].update_many({}, [earlier])


async def test_w17_queries_are_kept_for_a_week_and_documents_for_ninety_days_after_their_last_use(
    embedder: Embedder, indexing: Purpose, searching: Purpose, database: Database
) -> None:
    for purpose in (searching, indexing):
        await embedder.embed(["same text"], **MODEL, purpose=purpose)
    assert await lifetimes(database) == [timedelta(days=7), timedelta(days=90)]

    await let_time_pass(database, timedelta(days=5))
    embedder._known._recent = RecentVectors()
    for purpose in (searching, indexing):
        assert (await embedder.embed(["same text"], **MODEL, purpose=purpose)).generated == 0
    assert await lifetimes(database) == [timedelta(days=2), timedelta(days=90)]


async def test_a_use_within_a_day_of_the_last_one_writes_nothing(
    embedder: Embedder, indexing: Purpose, database: Database
) -> None:
    await embedder.embed(["a"], **MODEL, purpose=indexing)
    await let_time_pass(database, timedelta(hours=23))
    await embedder.embed(["a"], **MODEL, purpose=indexing)
    assert await lifetimes(database) == [timedelta(days=89, hours=1)]


async def test_a_vector_that_was_bought_for_a_week_is_kept_when_a_chunk_needs_it(
    embedder: Embedder, indexing: Purpose, database: Database
) -> None:
    await embedder.embed(["a sentence"], **MODEL, purpose=replace(indexing, short_lived=True))
    assert await lifetimes(database) == [timedelta(days=7)]
    assert (await embedder.embed(["a sentence"], **MODEL, purpose=indexing)).generated == 0
    assert await lifetimes(database) == [timedelta(days=90)]


async def test_a_vector_that_was_to_stay_for_ever_is_given_a_time_when_it_is_used(
    embedder: Embedder, indexing: Purpose, database: Database
) -> None:
    await embedder.embed(["a"], **MODEL, purpose=indexing)
    await database[embedding_cache.NAME].update_many({}, {"$unset": {"expires_at": 1}})
    await embedder.embed(["a"], **MODEL, purpose=indexing)
    assert await lifetimes(database) == [timedelta(days=90)]


async def test_w17_no_organization_gets_what_another_paid_for(
    embedder: Embedder, indexing: Purpose, database: Database
) -> None:
    other = Purpose("globex", None, "index", "document")
    await embedder.embed(["a"], **MODEL, purpose=indexing)

    embedded = await embedder.embed(["a"], **MODEL, purpose=other)

    assert embedded.generated == 1
    assert await spu_ledger.sum_spus(database, "globex") == 1


async def test_with_the_global_scope_all_share(make_embedder: Callable[..., Embedder], indexing: Purpose) -> None:
    embedder = make_embedder(cache_scope="global")
    await embedder.embed(["a"], **MODEL, purpose=indexing)

    embedded = await embedder.embed(["a"], **MODEL, purpose=Purpose("globex", None, "index", "document"))

    assert (embedded.generated, embedded.cached) == (0, 1)


async def test_concurrent_calls_for_the_same_texts_charge_each_stored_vector_once(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await provider.program_faults(delay_ms=100)
    charged = counted("kb_spu_charged_total", operation_type="index")

    all_embedded = await asyncio.gather(
        *(embedder.embed(texts(20 + extra), **MODEL, purpose=indexing) for extra in range(6))
    )

    assert await rows(database) == 25
    assert await spu_ledger.sum_spus(database, "acme") == 25
    assert sum(embedded.generated for embedded in all_embedded) == 25
    assert counted("kb_spu_charged_total", operation_type="index") - charged == 25


async def test_a_call_uses_the_vectors_that_another_process_stored_after_it_began(
    make_embedder: Callable[..., Embedder], indexing: Purpose, database: Database
) -> None:
    embedder, another = make_embedder(), make_embedder()

    async def another_is_first() -> None:
        if not first:
            first.append(asyncio.create_task(another.embed(["a", "b"], **MODEL, purpose=indexing)))
            await first[0]
            stored.extend(await database[embedding_cache.NAME].find().to_list())

    first: list[asyncio.Task[Any]] = []
    stored: list[Row] = []
    async with during("embed.after_answer", another_is_first):
        second = await embedder.embed(["a", "c"], **MODEL, purpose=indexing)

    assert (second.generated, second.cached) == (1, 1)
    assert await spu_ledger.sum_spus(database, "acme") == await rows(database) == 3
    kept = await database[embedding_cache.NAME].find({"_id": {"$in": [row["_id"] for row in stored]}}).to_list()
    assert {row["chunk_hash"]: row for row in kept} == {row["chunk_hash"]: row for row in stored}
    assert len(stored) == 2


@pytest.mark.parametrize("kind", ["short", "wrong_dimension", "nan"])
async def test_w7_a_wrong_answer_is_never_stored_and_the_caller_may_ask_again(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database, kind: str
) -> None:
    await provider.program_faults({"kind": kind, "times": 1})

    with pytest.raises(ProviderUnavailable) as wrong:
        await embedder.embed(["a", "b", "c"], **MODEL, purpose=indexing)
    assert (wrong.value.error_type, await provider.calls()) == ("bad_answer", 1)
    embedded = await embedder.embed(["a", "b", "c"], **MODEL, purpose=indexing)

    assert np.array_equal(embedded.vectors, [vector_of(text, dimensions=16) for text in "abc"])
    assert await spu_ledger.sum_spus(database, "acme") == await rows(database) == 3
    assert await provider.calls() == 2


async def test_a_provider_that_answers_wrongly_is_left_to_the_caller_with_nothing_stored(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await provider.program_faults({"kind": "short"})
    wrong = counted("kb_provider_responses_total", model="hash", status_class="bad_answer")

    with pytest.raises(ProviderUnavailable) as given_up:
        await embedder.embed(["a", "b"], **MODEL, purpose=indexing)

    assert given_up.value.error_type == "bad_answer"
    assert await provider.calls() == 1
    assert counted("kb_provider_responses_total", model="hash", status_class="bad_answer") - wrong == 1
    assert await spu_ledger.sum_spus(database, "acme") == await rows(database) == 0


async def test_a_shuffled_answer_is_put_in_order(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose
) -> None:
    await provider.program_faults({"kind": "shuffled"})

    embedded = await embedder.embed(["a", "b", "c"], **MODEL, purpose=indexing)

    assert np.array_equal(embedded.vectors, [vector_of(text, dimensions=16) for text in "abc"])


@pytest.mark.parametrize(("fault", "reason"), [({"status": 503}, "5xx"), ({"status": 408}, "timeout")])
async def test_a_call_that_is_repeated_is_counted_by_the_reason(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, fault: dict[str, Any], reason: str
) -> None:
    await provider.program_faults({**fault, "times": 1})
    before = counted("kb_retries_total", model="hash", reason=reason)
    await embedder.embed(["a"], **MODEL, purpose=indexing)
    assert counted("kb_retries_total", model="hash", reason=reason) == before + 1


async def test_the_time_a_limiting_provider_asks_for_is_waited(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose
) -> None:
    await provider.program_faults({"status": 429, "retry_after_s": 0.7, "times": 1})
    clock = asyncio.get_running_loop().time
    began = clock()
    before = counted("kb_retries_total", model="hash", reason="429")

    await embedder.embed(["a"], **MODEL, purpose=indexing)

    assert clock() - began >= 0.7
    assert await provider.calls() == 2
    assert counted("kb_retries_total", model="hash", reason="429") == before + 1


async def test_a_long_wait_is_left_to_the_caller(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose
) -> None:
    await provider.program_faults({"status": 429, "retry_after_s": 60})
    before = counted("kb_retries_total", model="hash", reason="429")

    with pytest.raises(ProviderUnavailable) as limited:
        await embedder.embed(["a"], **MODEL, purpose=indexing)

    assert (limited.value.error_type, limited.value.retry_after_s) == ("provider_429", 60)
    assert await provider.calls() == 1
    assert counted("kb_retries_total", model="hash", reason="429") == before, "it was not asked again"


async def test_a_provider_that_does_not_answer_is_given_up(
    make_embedder: Callable[..., Embedder], provider: FaultyProvider, indexing: Purpose
) -> None:
    await provider.program_faults({"kind": "hang"})

    with pytest.raises(ProviderUnavailable) as late:
        await make_embedder(timeout_s=0.2, patience_s=0.1).embed(["a"], **MODEL, purpose=indexing)

    assert late.value.error_type == "provider_timeout"


@pytest.mark.parametrize(
    ("fault", "refusal"),
    [
        ({"status": 401}, "provider_auth"),
        ({"status": 403}, "provider_auth"),
        ({"status": 404}, "provider_4xx"),
        ({"status": 413}, "text_refused"),
        ({"kind": "context_length"}, "text_refused"),
    ],
)
async def test_a_refusal_is_permanent_and_not_tried_again(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, fault: dict[str, Any], refusal: str
) -> None:
    await provider.program_faults(fault)

    with pytest.raises(ProviderRefused) as refused:
        await embedder.embed(["a"], **MODEL, purpose=indexing)

    assert refused.value.error_type == refusal
    assert await provider.calls() == 1


async def test_w12_only_the_text_that_is_refused_fails_and_a_retry_pays_for_it_alone(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    wanted = [*texts(200), "guilty " * 20, *texts(99, prefix="innocent")]
    await provider.program_faults({"status": 400, "min_text_chars": 100})

    with pytest.raises(BatchRefused):
        await embedder.embed(wanted, **MODEL, purpose=indexing)

    assert await rows(database) == await spu_ledger.sum_spus(database, "acme") == 299
    await provider.program_faults()
    again = await embedder.embed(wanted, **MODEL, purpose=indexing)
    assert (again.generated, again.cached) == (1, 299)
    assert set((await provider.served()).values()) == {1}


@pytest.mark.parametrize("fault", [{"status": 413}, {"kind": "context_length"}])
async def test_a_refused_text_of_one_document_harms_no_other_in_the_same_request(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, fault: dict[str, Any]
) -> None:
    await provider.program_faults({**fault, "min_text_chars": 100})

    guilty, innocent = await asyncio.gather(
        embedder.embed(["guilty " * 20, "beside it"], **MODEL, purpose=indexing),
        embedder.embed(texts(5), **MODEL, purpose=replace(indexing, kb_id=OTHER_KB)),
        return_exceptions=True,
    )

    assert isinstance(guilty, BatchRefused)
    assert not isinstance(innocent, BaseException)
    assert innocent.generated == 5


async def test_c6_concurrent_documents_share_requests_and_each_knowledge_base_pays_for_its_own_texts(
    embedder: Embedder,
    provider: FaultyProvider,
    indexing: Purpose,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However far apart a busy machine lets them come. They fill two requests.
    monkeypatch.setattr(vector_buyer, "GATHERED_FOR_S", 3600)
    all_embedded = await asyncio.gather(
        *(
            embedder.embed(texts(25, prefix=f"{n}"), **MODEL, purpose=purpose)
            for n, purpose in enumerate([indexing, replace(indexing, kb_id=OTHER_KB)] * 4)
        )
    )

    assert [embedded.generated for embedded in all_embedded] == [25] * 8
    assert await provider.calls() == 2
    for kb_id in (indexing.kb_id, OTHER_KB):
        assert kb_id is not None
        assert (await spu_ledger.sum_of_kb(database, KnowledgeBaseKey("acme", kb_id)))[0].spus == 100


async def test_a_text_that_was_not_in_the_cache_counts_once_however_often_it_is_tried(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose
) -> None:
    hits, misses = "kb_embedding_cache_hits_total", "kb_embedding_cache_misses_total"
    before = counted(hits, model="hash"), counted(misses, model="hash")
    await provider.program_faults(*[{"status": 404, "min_text_chars": 100}] * 3)
    wanted = ["guilty " * 20, "a", "b"]
    for _ in range(3):
        with pytest.raises(ProviderRefused):
            await embedder.embed(wanted, **MODEL, purpose=indexing)
    await provider.program_faults()
    assert (await embedder.embed(wanted, **MODEL, purpose=indexing)).generated >= 1
    assert counted(misses, model="hash") - before[1] == 3
    await embedder.embed([*wanted, "c"], **MODEL, purpose=indexing)
    assert counted(misses, model="hash") - before[1] == 4
    assert counted(hits, model="hash") - before[0] >= 3


async def test_after_a_failure_no_further_sub_batch_is_begun(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await provider.program_faults({"status": 404, "min_text_chars": 100})

    with pytest.raises(ProviderRefused):
        await embedder.embed(["guilty " * 20, *texts(2_000)], **MODEL, purpose=indexing)

    # Those that were under way beside the guilty one, or began before it failed, are kept.
    calls = await provider.calls()
    assert MOST_NEARBY <= calls < 21
    assert await rows(database) == 100 * (calls - 1)


async def test_a_refused_key_parks_its_organization_and_no_other(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose
) -> None:
    await provider.program_faults({"status": 401, "times": 1})
    with pytest.raises(ProviderKeyRefused):
        await embedder.embed(["a"], **MODEL, purpose=indexing)

    with pytest.raises(Parked):
        await embedder.embed(["b"], **MODEL, purpose=indexing)

    assert await provider.calls() == 1
    other = await embedder.embed(["b"], **MODEL, purpose=replace(indexing, organization_id="globex"))
    assert other.generated == 1


async def test_a_pause_that_a_provider_asks_for_is_kept_by_every_replica(
    make_embedder: Callable[..., Embedder], provider: FaultyProvider, indexing: Purpose
) -> None:
    await provider.program_faults({"status": 429, "retry_after_s": 60, "times": 1})
    first, second = make_embedder(patience_s=0.2), make_embedder(patience_s=0.2)
    with pytest.raises(ProviderUnavailable):
        await first.embed(["a"], **MODEL, purpose=indexing)

    with pytest.raises(Parked) as parked:
        await second.embed(["b"], **MODEL, purpose=indexing)

    assert parked.value.error_type == "rate_limited"
    assert await provider.calls() == 1


async def test_a_knowledge_base_waits_for_its_own_limit_and_no_other_does(
    make_embedder: Callable[..., Embedder], indexing: Purpose
) -> None:
    embedder = make_embedder(patience_s=0.2)
    limits = {"requests_per_minute": 1}
    await embedder.embed(["a"], **MODEL, purpose=indexing, rate_limits=limits)

    with pytest.raises(Parked):
        await embedder.embed(["b"], **MODEL, purpose=indexing, rate_limits=limits)
    cached = await embedder.embed(["a"], **MODEL, purpose=indexing, rate_limits=limits)
    other = await embedder.embed(["b"], **MODEL, purpose=replace(indexing, kb_id=OTHER_KB), rate_limits=limits)

    assert (cached.generated, other.generated) == (0, 1)


async def test_a_hard_budget_refuses_before_the_first_call_and_is_used_to_the_last_spu(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await budgets.set_limits(database, "acme", BudgetLimits(soft=None, hard=10))
    await embedder.embed(texts(7), **MODEL, purpose=indexing)
    calls = await provider.calls()

    with pytest.raises(BudgetExhausted):
        await embedder.embed(texts(4, prefix="too many"), **MODEL, purpose=indexing)

    assert await provider.calls() == calls
    cached = await embedder.embed(texts(7), **MODEL, purpose=indexing)
    last = await embedder.embed(texts(10), **MODEL, purpose=indexing)
    assert (cached.generated, last.generated) == (0, 3)
    other = await embedder.embed(texts(1), **MODEL, purpose=replace(indexing, organization_id="globex"))
    assert other.generated == 1


async def test_a_failed_call_returns_the_spus_that_it_did_not_spend(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await budgets.set_limits(database, "acme", BudgetLimits(soft=None, hard=10))
    await provider.program_faults({"status": 404})
    with pytest.raises(ProviderRefused):
        await embedder.embed(texts(10), **MODEL, purpose=indexing)

    await provider.program_faults()
    assert (await embedder.embed(texts(10), **MODEL, purpose=indexing)).generated == 10


async def ledger_of(database: Database) -> int:
    return await spu_ledger.sum_spus(database, "acme")


async def used(database: Database) -> int:
    row = await database[budgets.NAME].find_one({"organization_id": "acme"})
    assert row is not None
    return int(row["used"])


async def test_texts_paid_for_a_caller_that_left_count_against_the_budget(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await budgets.set_limits(database, "acme", BudgetLimits(soft=None, hard=10))
    asked, has_left = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await has_left.wait()

    async with during("embed.after_answer", wait):
        leaving = asyncio.create_task(embedder.embed(texts(9), **MODEL, purpose=indexing))
        await asked.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
        has_left.set()

    with pytest.raises(BudgetExhausted):
        await embedder.embed(texts(9, prefix="more"), **MODEL, purpose=indexing)
    await embedder.close()
    assert (await used(database), await ledger_of(database)) == (9, 9)


async def test_texts_that_a_cancelled_caller_wanted_first_are_charged_to_its_reservation(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_buyer, "GATHERED_FOR_S", 0.5)
    await budgets.set_limits(database, "acme", BudgetLimits(soft=None, hard=10))
    leaving = asyncio.create_task(embedder.embed(texts(5), **MODEL, purpose=indexing))
    staying = asyncio.create_task(embedder.embed(texts(5), **MODEL, purpose=indexing))
    await until(
        lambda: any(each._pending for each in embedder._buyer._queues.values()), what="a caller waits for a vector"
    )
    leaving.cancel()
    await asyncio.wait([leaving])

    assert len((await staying).vectors) == 5
    assert (await used(database), await ledger_of(database)) == (5, 5)


async def test_vectors_are_stored_from_memory_after_a_failed_write(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    async def fail_once() -> None:
        if not failures:
            failures.append("once")
            raise AutoReconnect("the primary stepped down")

    failures: list[str] = []
    async with during("embed.before_store_commit", fail_once):
        embedded = await embedder.embed(["a", "b"], **MODEL, purpose=indexing)

    assert embedded.generated == 2
    assert await provider.calls() == 1
    assert await spu_ledger.sum_spus(database, "acme") == await rows(database) == 2


async def test_vectors_that_can_never_be_stored_are_counted_and_not_charged(
    embedder: Embedder, indexing: Purpose, database: Database
) -> None:
    async def fail() -> None:
        raise AutoReconnect("the primary is gone")

    lost = counted("kb_embeddings_lost_total", model="hash")
    async with during("embed.before_store_commit", fail):
        with stamina.set_testing(True, attempts=2), pytest.raises(TransientError):
            await embedder.embed(["a", "b"], **MODEL, purpose=indexing)

    assert counted("kb_embeddings_lost_total", model="hash") - lost == 2
    assert await spu_ledger.sum_spus(database, "acme") == await rows(database) == 0
    assert await database[outbox.NAME].count_documents({}) == 0


async def test_a_commit_whose_answer_was_lost_charges_once(
    embedder: Embedder, indexing: Purpose, database: Database
) -> None:
    async with unacknowledged(database.client, "commitTransaction", code=UNKNOWN_WRITE_CONCERN):
        embedded = await embedder.embed(["a", "b"], **MODEL, purpose=indexing)

    assert embedded.generated == 2
    assert await spu_ledger.sum_spus(database, "acme") == await rows(database) == 2


async def test_a_caller_that_leaves_after_the_answer_does_not_lose_what_was_paid_for(
    embedder: Embedder, indexing: Purpose, database: Database
) -> None:
    async def caller_leaves() -> None:
        caller.cancel()

    async with during("embed.before_store_commit", caller_leaves):
        caller = asyncio.create_task(embedder.embed(["a"], **MODEL, purpose=indexing))
        with pytest.raises(asyncio.CancelledError):
            await caller
        await embedder.close()

    assert await spu_ledger.sum_spus(database, "acme") == await rows(database) == 1


async def test_dimensions_are_detected_with_one_paid_probe_and_free_after_it(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    assert (await embedder.detect_vectors(model="hash-48", purpose=indexing)).dimensions == 48
    assert (await embedder.detect_vectors(model="hash-48", purpose=indexing)).dimensions == 48

    assert await provider.calls() == 1
    assert await spu_ledger.sum_spus(database, "acme") == await rows(database) == 1


async def test_fewer_dimensions_than_the_models_own_are_asked_for(embedder: Embedder, indexing: Purpose) -> None:
    shortened = await embedder.embed(["a"], model="hash-16", dimensions=8, purpose=indexing)
    whole = await embedder.embed(["a"], model="hash-16", dimensions=16, purpose=indexing)

    assert [len(shortened.vectors[0]), len(whole.vectors[0])] == [8, 16]
    assert (shortened.generated, whole.generated) == (1, 1)


async def test_an_unknown_model_is_refused_before_anything_is_paid(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose
) -> None:
    with pytest.raises(UnknownModel):
        await embedder.detect_vectors(model="no-such-model", purpose=indexing)

    assert await provider.calls() == 0


async def test_a_real_model_answers_with_related_vectors_for_related_texts(
    embedder: Embedder, indexing: Purpose
) -> None:
    embedded = await embedder.embed(
        ["A cat sat on the mat.", "A kitten lay on the rug.", "Interest rates rose."],
        model="all-MiniLM-L6-v2",
        dimensions=384,
        purpose=indexing,
    )

    cat, kitten, rates = embedded.vectors
    assert cat @ kitten > cat @ rates + 0.2
