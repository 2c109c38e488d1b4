"""Runs an attack while a measured organization works, and checks how that organization is served.

The short form (in `make test`) asks that nothing of it fails. The long form measures it as well: without the attack and
during it, in the same run.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.noisy_neighbour.measured_tenant import MeasuredTenant, p95_s
from tests.noisy_neighbour.measured_tenant_process import Calls
from tests.noisy_neighbour.neighbourhood import Neighbourhood
from tests.waiting import until

SHORT_S: Final = 0.8
LONG_S: Final = 60.0
BASELINE_S: Final = 30.0
MAX_RATIO: Final = 3.0
"""Greatest ratio of the p95 during the attack to the p95 without it."""

Tally = Counter[str]
"""Counts of an attack, such as those of the statuses of its answers."""
Attack = Callable[[Neighbourhood, Tally], Awaitable[None]]
"""Goes on until it is cancelled."""


@dataclass(frozen=True, slots=True)
class AttackCheck:
    neighbourhood: Neighbourhood
    measured: MeasuredTenant
    is_long: bool

    async def assert_unaffected(self, attack: Attack, *, has_taken_place: Callable[[Tally], bool]) -> Tally:
        """Let the measured organization work during `attack`, and check what it noticed.

        Args:
            attack: counts what it does.
            has_taken_place: says by these counts whether it did what it is for; until then it goes on.

        Returns:
            What the attack counted.
        """
        baseline = await self._measure_baseline() if self.is_long else None
        tally: Tally = Counter()
        attacking = asyncio.ensure_future(attack(self.neighbourhood, tally))
        try:
            async with self.measured.calling() as calls:
                await asyncio.wait([attacking], timeout=LONG_S if self.is_long else SHORT_S)
                await _until_done(attacking, has_taken_place, tally)
            assert not calls.failures, calls.failures
            assert calls.document_ids
            # While the attack goes on: documents that have to wait for its end are stuck as long as the attacker wants.
            await self.measured.until_searchable(calls.document_ids)
            # An attack that ends by itself has failed.
            assert not attacking.done(), attacking
        finally:
            attacking.cancel()
            await asyncio.gather(attacking, return_exceptions=True)
        if baseline is not None:
            _compare(baseline, calls)
        return tally

    async def _measure_baseline(self) -> Calls:
        async with self.measured.calling() as calls:
            await asyncio.sleep(BASELINE_S)
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


def _compare(baseline: Calls, during_attack: Calls) -> None:
    p95s = {
        "search": (p95_s(baseline.search_s), p95_s(during_attack.search_s)),
        "publish": (p95_s(baseline.publish_s), p95_s(during_attack.publish_s)),
    }
    for what, (before, during) in p95s.items():
        print(  # noqa: T201  # the figures
            f"{what}: p95 {before * 1000:.0f} ms without the attack, {during * 1000:.0f} ms during it"
        )
    assert all(during <= MAX_RATIO * before for before, during in p95s.values()), p95s
