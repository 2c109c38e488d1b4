"""The outages of brokers and mongods that a seed causes, with their times. Pure.

As with `plan.py`, seeds keep their meaning only while this module stays as it is.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Outage(StrEnum):
    KILL = "kill"
    """SIGKILL; it comes back at the end."""
    FREEZE = "freeze"
    """SIGSTOP, and SIGCONT at the end; the cluster goes on without it meanwhile."""
    RESTART = "restart"
    """An orderly stop, and a start at the end."""
    STEP_DOWN = "step-down"
    """A primary that hands over and stays."""


@dataclass(frozen=True, slots=True)
class ServerFault:
    """Fault of one server of a cluster from `at_s` until `until_s`."""

    at_s: float
    until_s: float
    outage: Outage
    number: int
    """Number of the server, from 0."""
    targets_leader: bool
    """True if the fault hits the current controller or primary instead."""


@dataclass(frozen=True, slots=True)
class Outages:
    """Each sequence is in the order of time, and its faults never overlap: a majority is always left."""

    brokers: Sequence[ServerFault] = ()
    members: Sequence[ServerFault] = ()


_OF_BROKERS: Final = {Outage.KILL: 3, Outage.FREEZE: 2, Outage.RESTART: 1}
_OF_MEMBERS: Final = {Outage.KILL: 3, Outage.FREEZE: 3, Outage.RESTART: 1, Outage.STEP_DOWN: 2}


def create_outages(seed: int, *, seconds: float, brokers: int, members: int) -> Outages:
    """Return the faults of a seed; none for what is not a cluster of several."""
    return Outages(
        brokers=list(_faults(random.Random(f"brokers/{seed}"), seconds, brokers, _OF_BROKERS)) if brokers > 1 else (),
        members=list(_faults(random.Random(f"members/{seed}"), seconds, members, _OF_MEMBERS)) if members > 1 else (),
    )


def _faults(dice: random.Random, seconds: float, servers: int, weights: dict[Outage, int]) -> Iterator[ServerFault]:
    at_s = dice.uniform(0.5, seconds / 3)
    while at_s < seconds - 1:
        [outage] = dice.choices(list(weights), list(weights.values()))
        # Some outages end before they are noticed, others after a failover.
        lasts_s = 0 if outage is Outage.STEP_DOWN else dice.choice([dice.uniform(0.5, 3), dice.uniform(6, 12)])
        until_s = min(at_s + lasts_s, seconds)
        yield ServerFault(
            at_s,
            until_s,
            outage,
            number=dice.randrange(servers),
            targets_leader=outage is Outage.STEP_DOWN or dice.random() < 0.6,
        )
        at_s = until_s + dice.uniform(1, 6)
