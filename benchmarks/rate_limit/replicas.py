"""Replicas that want more of one bucket than there is, and how well they keep to its limit."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kb_shared.mongo import rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.providers.rate_limiter import RateLimiter


@dataclass(frozen=True, slots=True)
class SpendingFigures:
    asks: int
    asks_per_command: float
    used_share: float
    """Share of the limit that was used in that time."""
    most_over_limit_s: float
    """By how much any stretch of time was over the limit, at most, in seconds of the rate."""
    per_replica: list[int]
    slowest_turn_s: float
    """The longest that a replica went without."""


async def spend_with_replicas(
    replicas: Sequence[Database], bucket: Bucket, *, seconds: float, waiters: int, tokens: int
) -> SpendingFigures:
    """Let each replica have `waiters` tasks that take one request with `tokens` again and again.

    Args:
        replicas: the way of each to the same database.
        bucket: with a limit of requests, unused so far.
    """
    loop = asyncio.get_running_loop()
    limiters = [RateLimiter(database) for database in replicas]
    times: list[list[float]] = [[] for _ in replicas]
    began = loop.time()

    async def want_more(limiter: RateLimiter, times: list[float]) -> None:
        while True:
            await limiter.reserve(bucket, tokens=tokens, patience_s=600)
            times.append(loop.time() - began)

    waiting = [
        asyncio.create_task(want_more(*replica))
        for replica in zip(limiters, times, strict=True)
        for _ in range(waiters)
    ]
    await asyncio.sleep(seconds)
    spent = [tuple(own) for own in times]
    blocks = (await rate_limits.reserve(replicas[0], bucket, requests=0, tokens=0, longest_wait_s=600)).number
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.gather(*(limiter.wait_for_returns() for limiter in limiters))
    assert bucket.requests_per_minute is not None
    return _figures(spent, per_s=bucket.requests_per_minute / 60, seconds=seconds, blocks=blocks)


def _figures(spent: Sequence[Sequence[float]], *, per_s: float, seconds: float, blocks: int) -> SpendingFigures:
    asks = sum(len(times) for times in spent)
    return SpendingFigures(
        asks=asks,
        asks_per_command=round(asks / blocks, 2),
        used_share=round(asks / (per_s * seconds), 3),
        most_over_limit_s=round(_most_over(sorted(at for times in spent for at in times), per_s) / per_s, 3),
        per_replica=[len(times) for times in spent],
        slowest_turn_s=round(max(_longest_pause([0.0, *times, seconds]) for times in spent), 3),
    )


def _most_over(times: Sequence[float], per_s: float) -> float:
    """The most units that any stretch of time held beyond its length's worth."""
    over = most = before = 0.0
    for at in times:
        over = max(0.0, over - (at - before) * per_s) + 1
        most, before = max(most, over), at
    return most


def _longest_pause(times: Sequence[float]) -> float:
    return max(later - earlier for earlier, later in pairwise(times))
