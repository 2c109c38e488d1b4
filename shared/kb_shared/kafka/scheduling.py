"""Which record runs next: order within a place, turns between groups, a share for the bulk lane. Pure."""

import math
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from kb_shared.kafka.record import Place

Item = TypeVar("Item")

BULK_SHARE = 0.1


class Lane(Enum):
    """Live work goes first; bulk work takes what it leaves, and never less than a tenth of the slots."""

    LIVE = auto()
    BULK = auto()


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Item]):
    item: Item
    lane: Lane


class Scheduler(Generic[Item]):
    """Items wait here until a slot is theirs.

    Of one place a single item runs at a time, in the order of `add`, whichever lane they came by. Groups take turns,
    and none has more than `per_group` items running, so that a newcomer finds a free slot beside the busiest.
    An item that must be tried again later is suspended: it keeps its place's turn and gives its slot away.
    """

    def __init__(self, *, max_in_flight: int, per_group: int) -> None:
        self._max_in_flight = max_in_flight
        self._per_group = per_group
        # With a single slot there is nothing to share: live work would wait for ever.
        self._bulk_reserve = min(math.ceil(max_in_flight * BULK_SHARE), max_in_flight - 1)
        self._queues: dict[Place, deque[_Waiting[Item]]] = {}
        self._ready: dict[Lane, OrderedDict[str, deque[Place]]] = {lane: OrderedDict() for lane in Lane}
        self._running: dict[Place, _Waiting[Item]] = {}
        self._suspended: set[Place] = set()
        self._running_of_group: Counter[str] = Counter()
        self._running_in_lane: Counter[Lane] = Counter()
        self._active: Counter[Lane] = Counter()

    def add(self, item: Item, place: Place, lane: Lane = Lane.LIVE) -> None:
        queue = self._queues.setdefault(place, deque())
        queue.append(_Waiting(item, lane))
        if place in self._suspended:
            return
        self._active[lane] += 1
        if len(queue) == 1 and place not in self._running:
            self._line_up(place)

    def start_next(self) -> Item | None:
        """Give the next item a slot, or return None while none can have one."""
        if len(self._running) >= self._max_in_flight:
            return None
        for lane in self._lanes_by_claim():
            if (place := self._take_turn(lane)) is not None:
                return self._start(place)
        return None

    def finish(self, place: Place) -> None:
        """The item running at `place` is done with; the next of that place may run."""
        lane = self._release_slot(place).lane
        self._active[lane] -= 1
        if place in self._queues:
            self._line_up(place)

    def suspend(self, place: Place) -> None:
        """The item running at `place` gives up its slot and stays first in its place until `wake`."""
        waiting = self._release_slot(place)
        queue = self._queues.setdefault(place, deque())
        queue.appendleft(waiting)
        self._suspended.add(place)
        self._active.subtract(entry.lane for entry in queue)

    def wake(self, place: Place) -> None:
        """The suspended item at `place` may run again."""
        self._suspended.remove(place)
        self._active.update(entry.lane for entry in self._queues[place])
        self._line_up(place)

    def active(self, lane: Lane) -> int:
        """Items running or waiting, without those that stand behind a suspended one: they hold nobody up."""
        return self._active[lane]

    def _lanes_by_claim(self) -> tuple[Lane, Lane]:
        if self._running_in_lane[Lane.BULK] < self._bulk_reserve:
            return Lane.BULK, Lane.LIVE
        return Lane.LIVE, Lane.BULK

    def _line_up(self, place: Place) -> None:
        lane = self._queues[place][0].lane
        self._ready[lane].setdefault(place.group, deque()).append(place)

    def _take_turn(self, lane: Lane) -> Place | None:
        """Take the next ready place of the group whose turn it is, skipping groups that have all they may have."""
        groups = self._ready[lane]
        group = next((group for group in groups if self._running_of_group[group] < self._per_group), None)
        if group is None:
            return None
        places = groups[group]
        place = places.popleft()
        if places:
            groups.move_to_end(group)
        else:
            del groups[group]
        return place

    def _start(self, place: Place) -> Item:
        queue = self._queues[place]
        waiting = queue.popleft()
        if not queue:
            del self._queues[place]
        self._running[place] = waiting
        self._running_of_group[place.group] += 1
        self._running_in_lane[waiting.lane] += 1
        return waiting.item

    def _release_slot(self, place: Place) -> _Waiting[Item]:
        waiting = self._running.pop(place)
        self._running_in_lane[waiting.lane] -= 1
        self._running_of_group[place.group] -= 1
        if not self._running_of_group[place.group]:
            del self._running_of_group[place.group]
        return waiting
