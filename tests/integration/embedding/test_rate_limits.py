"""The limiter on a real MongoDB: a few seconds of what `benchmarks.rate_limit` does for longer."""

import asyncio

from benchmarks.rate_limit.replicas import spend_with_replicas
from kb_shared.embedding.rate_limiter import RateLimiter
from kb_shared.mongo import rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket

ACME = Bucket("acme", "model/m", requests_per_minute=6_000, tokens_per_minute=6_000_000, closable=True)


async def test_twenty_four_replicas_together_keep_to_the_limit_and_are_served_alike(database: Database) -> None:
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
    await other.take(ACME)
    assert 0.4 <= loop.time() - began < 2
    closing = await rate_limits.look(database, ACME)
    assert (closing.left_s, closing.total_s) == (0, 0.4)


async def test_replicas_that_use_a_bucket_first_at_the_same_moment_find_one_bucket(database: Database) -> None:
    slow = Bucket("acme", "kb/1", requests_per_minute=60)
    reservations = await asyncio.gather(
        *(rate_limits.reserve(database, slow, requests=1, tokens=0, longest_wait_s=60) for _ in range(8))
    )
    assert sorted(round(each.wait_s) for each in reservations) == list(range(8))
    assert await database[rate_limits.NAME].count_documents({}) == 1


async def test_what_is_given_back_is_there_again_unless_somebody_waits_behind_it(database: Database) -> None:
    slow = Bucket("acme", "kb/1", requests_per_minute=6)
    first = await rate_limits.reserve(database, slow, requests=1, tokens=0, longest_wait_s=60)
    second = await rate_limits.reserve(database, slow, requests=1, tokens=0, longest_wait_s=60)
    await rate_limits.give_back(database, slow, first, requests=1, tokens=0)
    behind = await rate_limits.reserve(database, slow, requests=1, tokens=0, longest_wait_s=60)
    await rate_limits.give_back(database, slow, behind, requests=1, tokens=0)
    again = await rate_limits.reserve(database, slow, requests=1, tokens=0, longest_wait_s=60)
    assert [round(each.wait_s) for each in (first, second, behind, again)] == [0, 10, 20, 20]


async def test_buckets_of_organizations_with_the_same_name_are_not_the_same(database: Database) -> None:
    await rate_limits.close(database, ACME, for_s=60)
    others = Bucket("other", ACME.name, closable=True)
    assert (await rate_limits.look(database, others)).left_s == 0
