"""Limits a minute that all replicas share, and what they cost those who stay within them."""

import pytest

from kb_shared.errors import RequestError
from kb_shared.http import request_limits
from kb_shared.http.authentication import Caller
from kb_shared.http.request_limits import RequestLimit, RequestLimits
from kb_shared.mongo import rate_limits
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from tests.waiting import until

ONE = Caller("acme", "one", frozenset({Scope.SEARCH}))
OTHER = Caller("acme", "other", frozenset({Scope.SEARCH}))


def limits(database: Database, *, of_key: int = 0, of_organization: int = 0) -> RequestLimits:
    return RequestLimits(database, {"search": RequestLimit(of_key, of_organization)})


async def is_taken(replica: RequestLimits, caller: Caller = ONE) -> bool:
    try:
        await replica.count_request("search", caller)
    except RequestError as error:
        refusal = error
    else:
        return True
    assert (refusal.status, refusal.slug) == (429, "too-many-requests")
    assert refusal.retry_after_s is not None
    assert 0 < refusal.retry_after_s <= 60
    return False


async def owed_s(database: Database, name: str) -> float:
    row = await database[rate_limits.NAME].find_one({"_id": f"acme/search/{name}"})
    return float(row["requests_ms"]) / 1000 if row else 0.0


async def test_a_limit_of_few_requests_holds_for_all_replicas_at_once(database: Database) -> None:
    replicas = [limits(database, of_key=1) for _ in range(3)]
    assert [await is_taken(replica) for replica in replicas] == [True, False, False]
    assert await is_taken(replicas[1], OTHER), "the limit of a key is its own"


async def test_requests_that_a_replica_admits_locally_count_in_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = limits(database, of_key=6), limits(database, of_key=6)
    monkeypatch.setattr(request_limits, "REFRESH_AFTER_S", 3600.0)
    # Of ten seconds each: one fits, and one more.
    assert [await is_taken(one) for _ in range(3)] == [True, True, False]
    monkeypatch.setattr(request_limits, "REFRESH_AFTER_S", 0.0)
    assert not await is_taken(one)
    assert not await is_taken(other)


async def test_the_last_locally_admitted_requests_are_stored_without_another_request(database: Database) -> None:
    replica = limits(database, of_key=2)
    # Of thirty seconds each, in a burst of ten.
    assert await is_taken(replica)
    meter = replica._meters.find("acme/search/key/one")
    assert meter is not None
    meter._add_debt(600.0)

    async def is_posted() -> bool:
        return await owed_s(database, "key/one") > 500

    await until(is_posted, what="the debt")


async def test_many_requests_in_a_second_ask_mongodb_once_for_each_limit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    spend = rate_limits.spend

    async def counting(database: Database, bucket: rate_limits.Bucket, **rest: float) -> rate_limits.SpendResult:
        asked.append(bucket.name)
        return await spend(database, bucket, **rest)

    monkeypatch.setattr(rate_limits, "spend", counting)
    monkeypatch.setattr(request_limits, "REFRESH_AFTER_S", 3600.0)
    replica = limits(database, of_key=60_000, of_organization=60_000)
    assert all([await is_taken(replica) for _ in range(500)])
    assert sorted(asked) == ["search/key/one", "search/organization"]


async def test_a_request_refused_for_the_organization_does_not_count_for_its_key(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = limits(database, of_key=1, of_organization=1)
    assert await is_taken(replica, OTHER)
    for _ in range(3):
        with pytest.raises(RequestError, match="of this organization"):
            await replica.count_request("search", ONE)
    monkeypatch.setattr(request_limits, "REFRESH_AFTER_S", 0.0)
    with pytest.raises(RequestError, match="of this organization"):
        await replica.count_request("search", ONE)
    assert await owed_s(database, "key/one") <= 60


async def test_without_a_limit_nothing_is_written(database: Database) -> None:
    replica = limits(database)
    assert all([await is_taken(replica) for _ in range(10)])
    assert await database[rate_limits.NAME].count_documents({}) == 0
