"""The limiter on a real MongoDB; what takes time is tested on a virtual clock, in `tests/unit/embedding`."""

import asyncio

import pytest

from benchmarks.rate_limit.replicas import spend_with_replicas
from kb_shared.mongo import rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket, RateReservation
from kb_shared.providers.rate_limiter import RateLimiter

ACME = Bucket("acme", "model/m", requests_per_minute=6_000, tokens_per_minute=6_000_000, closable=True)
SLOW = Bucket("acme", "kb/1", requests_per_minute=1)
"""So slow that it does not matter how long a busy machine takes for a reservation."""


async def one_request(database: Database) -> RateReservation:
    return await rate_limits.reserve(database, SLOW, requests=1, tokens=0, longest_wait_s=3600)


def minutes(reservation: RateReservation) -> int:
    """Return the minutes that the reservation has to wait."""
    return round(reservation.wait_s / 60)


@pytest.mark.long
async def test_twenty_four_replicas_together_keep_to_the_limit_and_are_served_alike(database: Database) -> None:
    """A few seconds of what `benchmarks.rate_limit` does for longer."""
    spending = await spend_with_replicas([database] * 24, ACME, seconds=3, waiters=20, tokens=200)

    # On a virtual clock it is one second; here a busy machine wakes replicas late.
    assert spending.most_over_limit_s <= 2
    assert spending.used_share >= 0.5
    assert min(spending.per_replica) > 0


async def test_a_pause_is_seen_by_another_replica_and_ends_by_itself(database: Database) -> None:
    one, other = RateLimiter(database), RateLimiter(database)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await one.close(ACME, 0.4)
    await other.reserve(ACME)
    assert loop.time() - began >= 0.4
    closing = await rate_limits.read_closing(database, ACME)
    assert (closing.left_s, closing.total_s) == (0, 0.4)


async def test_replicas_that_use_a_bucket_first_at_the_same_moment_find_one_bucket(database: Database) -> None:
    reservations = await asyncio.gather(*(one_request(database) for _ in range(24)))
    assert sorted(map(minutes, reservations)) == list(range(24))
    assert await database[rate_limits.NAME].count_documents({}) == 1


async def test_returned_units_are_available_again_unless_a_later_request_waits(database: Database) -> None:
    first = await one_request(database)
    second = await one_request(database)
    await rate_limits.give_back(database, SLOW, first, requests=1, tokens=0)
    behind = await one_request(database)
    await rate_limits.give_back(database, SLOW, behind, requests=1, tokens=0)
    again = await one_request(database)
    assert [minutes(each) for each in (first, second, behind, again)] == [0, 1, 2, 2]


async def test_buckets_of_organizations_with_the_same_name_are_not_the_same(database: Database) -> None:
    await rate_limits.close(database, ACME, for_s=60)
    others = Bucket("other", ACME.name, closable=True)
    assert (await rate_limits.read_closing(database, others)).left_s == 0
