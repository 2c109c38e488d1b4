"""An attack beside an innocent organization, and what that organization notices of it.

The short form (in `make test`) asks that nothing of it fails. The long form measures it as well: without the attack and
during it, in the same run.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.noisy_neighbour.innocent import Experience, Innocent
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
            async with self.innocent.at_work() as experience:
                await asyncio.wait([attacking], timeout=LONG_S if self.is_long else SHORT_S)
                await _until_done(attacking, has_taken_place, tally)
                # An attack that ends by itself has failed.
                assert not attacking.done(), attacking
        finally:
            attacking.cancel()
            await asyncio.gather(attacking, return_exceptions=True)
        assert not experience.failures, experience.failures
        assert experience.document_ids
        await self.innocent.until_searchable(experience.document_ids)
        if calm is not None:
            _compare(calm, experience)
        return tally

    async def _calm(self) -> Experience:
        async with self.innocent.at_work() as experience:
            await asyncio.sleep(CALM_S)
        assert not experience.failures, experience.failures
        return experience


async def _until_done(
    attacking: "asyncio.Future[None]", has_taken_place: Callable[[Tally], bool], tally: Tally
) -> None:
    try:
        await until(lambda: attacking.done() or has_taken_place(tally), what="the attack")
    except TimeoutError as error:
        error.add_note(f"It counted {dict(tally)}.")
        raise


def _compare(calm: Experience, attacked: Experience) -> None:
    p95s = {
        "search": (calm.search_p95_s, attacked.search_p95_s),
        "publish": (calm.publish_p95_s, attacked.publish_p95_s),
    }
    for what, (before, during) in p95s.items():
        print(  # noqa: T201  # the figures
            f"{what}: p95 {before * 1000:.0f} ms without the attack, {during * 1000:.0f} ms during it"
        )
    assert all(during <= MAX_RATIO * before for before, during in p95s.values()), p95s
