"""Which record runs next: order within a place, turns between organizations and their groups, a share for bulk work.

Pure.
"""

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeAlias, TypeVar

from kb_shared.kafka.record import OrderingKey

Item = TypeVar("Item")
Key = TypeVar("Key")
Queue = TypeVar("Queue", bound=Sized)

BULK_SHARE = 0.1
LIVE_FOR_EACH_BULK = 9
"""Items, where there is a single slot: the same tenth."""
SLOTS_FOR_EACH_FREE_ONE = 7
"""An organization may hold so many for each that is still free: seven eighths of all while it is alone, and less the
more the others hold. Several that never finish leave slots free together, too."""
COUNTED_SHARE = 0.25
"""Share of the slots: that many records of one organization count as work in stock."""


class Lane(Enum):
    """Live work goes first; bulk work takes what it leaves, and never less than a tenth of the slots."""

    LIVE = auto()
    BULK = auto()


_Group: TypeAlias = tuple[str, str]
"""The organization and the name of a group."""


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Item]):
    item: Item
    lane: Lane


class Scheduler(Generic[Item]):
    """Items wait here until a slot is theirs.

    Of one place a single item runs at a time, in the order of `add`, whichever lane they came by. Organizations take
    turns, and within an organization its groups do. Both are bounded, so that a newcomer finds a free slot beside the
    busiest. An item that must be tried again later is suspended: it keeps its place's turn and gives its slot away.
    """

    def __init__(self, *, max_in_flight: int, per_group: int, limit: Callable[[], int] | None = None) -> None:
        """Begin empty.

        Args:
            max_in_flight: slots, which are items that run at once.
            per_group: of these for one group of an organization.
            limit: how many of the slots may be used at the moment, at least one; what runs beyond that goes on. The
                shares of groups and lanes are of these.
        """
        self._max_in_flight = max_in_flight
        self._per_group = per_group
        self._limit = limit
        self._live_in_a_row = 0
        self._counted = max(1, int(max_in_flight * COUNTED_SHARE))
        self._queues: dict[OrderingKey, deque[_Waiting[Item]]] = {}
        self._ready: dict[Lane, _Turns] = {lane: _Turns() for lane in Lane}
        self._running: dict[OrderingKey, _Waiting[Item]] = {}
        self._suspended: set[OrderingKey] = set()
        self._running_of_organization: Counter[str] = Counter()
        self._running_of_group: Counter[_Group] = Counter()
        self._running_in_lane: Counter[Lane] = Counter()
        self._active: dict[Lane, Counter[str]] = {lane: Counter() for lane in Lane}

    def add(self, item: Item, ordering_key: OrderingKey, lane: Lane = Lane.LIVE) -> None:
        queue = self._queues.setdefault(ordering_key, deque())
        queue.append(_Waiting(item, lane))
        if ordering_key in self._suspended:
            return
        self._active[lane][ordering_key.organization_id] += 1
        if len(queue) == 1 and ordering_key not in self._running:
            self._line_up(ordering_key)

    def start_next(self) -> Item | None:
        """Give the next item a slot, or return None while none can have one."""
        if len(self._running) >= self._slots:
            return None
        for lane in self._lanes_by_claim():
            if (ordering_key := self._take_turn(lane)) is not None:
                return self._start(ordering_key)
        return None

    def finish(self, ordering_key: OrderingKey) -> None:
        """The item running at `ordering_key` is done with; the next of that place may run."""
        lane = self._release_slot(ordering_key).lane
        self._deactivate(ordering_key, [lane])
        if ordering_key in self._queues:
            self._line_up(ordering_key)

    def suspend(self, ordering_key: OrderingKey) -> None:
        """The item running at `ordering_key` gives up its slot and stays first in its place until `wake`."""
        waiting = self._release_slot(ordering_key)
        queue = self._queues.setdefault(ordering_key, deque())
        queue.appendleft(waiting)
        self._suspended.add(ordering_key)
        self._deactivate(ordering_key, [entry.lane for entry in queue])

    def wake(self, ordering_key: OrderingKey) -> None:
        """The suspended item at `ordering_key` may run again."""
        self._suspended.remove(ordering_key)
        for entry in self._queues[ordering_key]:
            self._active[entry.lane][ordering_key.organization_id] += 1
        self._line_up(ordering_key)

    def in_stock(self, lane: Lane) -> int:
        """Count the items that run or wait, of one organization up to a quarter of the slots.

        What one organization has beyond that keeps no slot busy that others could not use. Items behind a suspended
        one hold nobody up and do not count.
        """
        return sum(min(items, self._counted) for items in self._active[lane].values())

    @property
    def _slots(self) -> int:
        """The slots that may be used now."""
        return self._max_in_flight if self._limit is None else max(1, min(self._max_in_flight, self._limit()))

    def _deactivate(self, ordering_key: OrderingKey, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            _count_down(self._active[lane], ordering_key.organization_id)

    def _lanes_by_claim(self) -> tuple[Lane, Lane]:
        slots = self._slots
        if slots == 1:
            # A single slot can be shared only by turns.
            is_bulk_due = self._live_in_a_row >= LIVE_FOR_EACH_BULK
        else:
            is_bulk_due = self._running_in_lane[Lane.BULK] < math.ceil(slots * BULK_SHARE)
        return (Lane.BULK, Lane.LIVE) if is_bulk_due else (Lane.LIVE, Lane.BULK)

    def _line_up(self, ordering_key: OrderingKey) -> None:
        self._ready[self._queues[ordering_key][0].lane].add(ordering_key)

    def _take_turn(self, lane: Lane) -> OrderingKey | None:
        """Take the next ready place, skipping organizations and groups that have all they may have."""
        return self._ready[lane].choose_next(may_run=self._may_run, may_run_group=self._may_run_group)

    def _may_run(self, organization_id: str) -> bool:
        held = self._running_of_organization[organization_id]
        free = self._slots - len(self._running)
        return held == 0 or held + 1 <= SLOTS_FOR_EACH_FREE_ONE * (free - 1)

    def _may_run_group(self, organization_id: str, group: str) -> bool:
        share = max(1, self._slots * self._per_group // self._max_in_flight)
        return self._running_of_group[organization_id, group] < share

    def _start(self, ordering_key: OrderingKey) -> Item:
        queue = self._queues[ordering_key]
        waiting = queue.popleft()
        if not queue:
            del self._queues[ordering_key]
        self._running[ordering_key] = waiting
        self._running_of_organization[ordering_key.organization_id] += 1
        self._running_of_group[ordering_key.organization_id, ordering_key.group] += 1
        self._running_in_lane[waiting.lane] += 1
        self._live_in_a_row = self._live_in_a_row + 1 if waiting.lane is Lane.LIVE else 0
        return waiting.item

    def _release_slot(self, ordering_key: OrderingKey) -> _Waiting[Item]:
        waiting = self._running.pop(ordering_key)
        self._running_in_lane[waiting.lane] -= 1
        _count_down(self._running_of_organization, ordering_key.organization_id)
        _count_down(self._running_of_group, (ordering_key.organization_id, ordering_key.group))
        return waiting


class _Turns:
    """Ready places of a lane: organizations take turns, and within each its groups."""

    def __init__(self) -> None:
        self._organizations: OrderedDict[str, OrderedDict[str, deque[OrderingKey]]] = OrderedDict()

    def add(self, ordering_key: OrderingKey) -> None:
        groups = self._organizations.setdefault(ordering_key.organization_id, OrderedDict())
        groups.setdefault(ordering_key.group, deque()).append(ordering_key)

    def choose_next(
        self, *, may_run: Callable[[str], bool], may_run_group: Callable[[str, str], bool]
    ) -> OrderingKey | None:
        """Take the place whose turn it is among those that may run, or return None."""
        for organization_id, groups in self._organizations.items():
            if not may_run(organization_id):
                continue
            group = next((group for group in groups if may_run_group(organization_id, group)), None)
            if group is not None:
                return self._pop(organization_id, group)
        return None

    def _pop(self, organization_id: str, group: str) -> OrderingKey:
        groups = self._organizations[organization_id]
        ordering_key = groups[group].popleft()
        _end_turn(groups, group)
        _end_turn(self._organizations, organization_id)
        return ordering_key


def _end_turn(turns: OrderedDict[str, Queue], name: str) -> None:
    """Put `name` behind the others, or forget it if nothing of it waits."""
    if turns[name]:
        turns.move_to_end(name)
    else:
        del turns[name]


def _count_down(counts: Counter[Key], key: Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
