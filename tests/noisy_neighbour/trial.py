"""An attack beside an innocent organization, and what that organization notices of it.

The short form (in `make test`) asks that nothing of it fails. The long form measures it as well: without the attack and
during it, in the same run.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.noisy_neighbour.innocent import Innocent, p95_s
from tests.noisy_neighbour.innocent_caller import Calls
from tests.noisy_neighbour.neighbourhood import Neighbourhood
from tests.waiting import until

SHORT_S: Final = 0.8
LONG_S: Final = 60.0
CALM_S: Final = 30.0
MAX_RATIO: Final = 3.0
"""Of the p95 during the attack and the p95 without it."""

Tally = Counter[str]
"""What an attack counts of what it did, such as the statuses of its answers."""
Attack = Callable[[Neighbourhood, Tally], Awaitable[None]]
"""Goes on until it is cancelled."""


@dataclass(frozen=True, slots=True)
class Trial:
    neighbourhood: Neighbourhood
    innocent: Innocent
    is_long: bool

    async def survives(self, attack: Attack, *, has_taken_place: Callable[[Tally], bool]) -> Tally:
        """Let the innocent organization work during `attack`, and check what it noticed.

        Args:
            attack: counts what it does.
            has_taken_place: says by these counts whether it did what it is for; until then it goes on.

        Returns:
            What the attack counted.
        """
        calm = await self._calm() if self.is_long else None
        tally: Tally = Counter()
        attacking = asyncio.ensure_future(attack(self.neighbourhood, tally))
        try:
            async with self.innocent.at_work() as calls:
                await asyncio.wait([attacking], timeout=LONG_S if self.is_long else SHORT_S)
                await _until_done(attacking, has_taken_place, tally)
                # An attack that ends by itself has failed.
                assert not attacking.done(), attacking
        finally:
            attacking.cancel()
            await asyncio.gather(attacking, return_exceptions=True)
        assert not calls.failures, calls.failures
        assert calls.document_ids
        await self.innocent.until_searchable(calls.document_ids)
        if calm is not None:
            _compare(calm, calls)
        return tally

    async def _calm(self) -> Calls:
        async with self.innocent.at_work() as calls:
            await asyncio.sleep(CALM_S)
        assert not calls.failures, calls.failures
        return calls


async def _until_done(
    attacking: "asyncio.Future[None]", has_taken_place: Callable[[Tally], bool], tally: Tally
) -> None:
    try:
        await until(lambda: attacking.done() or has_taken_place(tally), what="the attack")
    except TimeoutError as error:
        error.add_note(f"It counted {dict(tally)}.")
        raise


def _compare(calm: Calls, attacked: Calls) -> None:
    p95s = {
        "search": (p95_s(calm.search_s), p95_s(attacked.search_s)),
        "publish": (p95_s(calm.publish_s), p95_s(attacked.publish_s)),
    }
    for what, (before, during) in p95s.items():
        print(  # noqa: T201  # the figures
            f"{what}: p95 {before * 1000:.0f} ms without the attack, {during * 1000:.0f} ms during it"
        )
    assert all(during <= MAX_RATIO * before for before, during in p95s.values()), p95s
