"""Decides which record runs next.

Records with one ordering key run in order, one or a bundle at a time. Organizations and their groups take turns, bulk
work has a share.

Pure.
"""

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Sized
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Generic, TypeAlias, TypeVar

from kb_shared.kafka.record import OrderingKey

Item = TypeVar("Item")
Key = TypeVar("Key")
Queue = TypeVar("Queue", bound=Sized)

BULK_SHARE = 0.1
LIVE_FOR_EACH_BULK = 9
"""Number of live items between two bulk items if there is a single slot: the same tenth."""
SLOTS_FOR_EACH_FREE_ONE = 7
"""Number of slots that an organization may hold for each free one: seven eighths of all while it is alone, and fewer
when others hold slots. Several organizations whose work never finishes leave slots free, too."""
COUNTED_SHARE = 0.25
"""Share of the slots up to which the records of one organization count as active."""


class Lane(Enum):
    """Priority of a record: live work goes first, bulk work gets the slots that are left, and at least a tenth."""

    LIVE = auto()
    BULK = auto()


_Group: TypeAlias = tuple[str, str]
"""Organization and name of a group."""


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """Limits of the items of one ordering key that share a slot. The first one is in the bundle whatever its size."""

    items: int = 1
    size_bytes: int = 0


ONE_AT_A_TIME: Final = BundleLimits()


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Item]):
    item: Item
    lane: Lane
    size_bytes: int
    is_alone: bool = False
    """True if it gets a slot of its own."""


class Scheduler(Generic[Item]):
    """Queues items until they get a slot.

    Of each ordering key one bundle runs at a time, in the order of `add`, in whichever lane the items are. By default a
    bundle is one item. Organizations take turns, and so do the groups of an organization. Both have a limit, so that an
    organization that has just begun finds a free slot beside the busiest one. An item that is tried again later is
    suspended: it gives up its slot, and later items with its ordering key wait for it.
    """

    def __init__(
        self,
        *,
        max_in_flight: int,
        per_group: int,
        limit: Callable[[], int] | None = None,
        bundles: BundleLimits = ONE_AT_A_TIME,
    ) -> None:
        """Begin empty.

        Args:
            max_in_flight: number of slots, which is the number of bundles that run at once.
            per_group: slots that one group of an organization may use.
            limit: returns how many slots may be used now, at least one. Bundles that run beyond it go on. The shares of
                groups and lanes are relative to it.
            bundles: how many items of an ordering key run together in a slot.
        """
        self._max_in_flight = max_in_flight
        self._per_group = per_group
        self._limit = limit
        self._bundles = bundles
        self._live_in_a_row = 0
        self._counted = max(1, int(max_in_flight * COUNTED_SHARE))
        self._queues: dict[OrderingKey, deque[_Waiting[Item]]] = {}
        self._ready: dict[Lane, _RoundRobinQueue] = {lane: _RoundRobinQueue() for lane in Lane}
        self._running: dict[OrderingKey, list[_Waiting[Item]]] = {}
        self._suspended: set[OrderingKey] = set()
        self._running_of_organization: Counter[str] = Counter()
        self._running_of_group: Counter[_Group] = Counter()
        self._running_in_lane: Counter[Lane] = Counter()
        self._active: dict[Lane, Counter[str]] = {lane: Counter() for lane in Lane}

    def add(self, item: Item, ordering_key: OrderingKey, lane: Lane = Lane.LIVE, *, size_bytes: int = 0) -> None:
        queue = self._queues.setdefault(ordering_key, deque())
        queue.append(_Waiting(item, lane, size_bytes))
        if ordering_key in self._suspended:
            return
        self._active[lane][ordering_key.organization_id] += 1
        if len(queue) == 1 and ordering_key not in self._running:
            self._mark_ready(ordering_key)

    def start_next(self) -> list[Item]:
        """Give the next items of an ordering key a slot and return them; none if no item can have one."""
        if len(self._running) >= self._slots:
            return []
        for lane in self._lanes_by_priority():
            if (ordering_key := self._take_turn(lane)) is not None:
                return self._start(ordering_key)
        return []

    def finish(self, ordering_key: OrderingKey) -> None:
        """Finish the running items of `ordering_key`; its next ones may run."""
        self._deactivate(ordering_key, self._release_slot(ordering_key))
        if ordering_key in self._queues:
            self._mark_ready(ordering_key)

    def suspend(self, ordering_key: OrderingKey, unfinished: Collection[Item]) -> None:
        """Take the slot from the running items of `ordering_key`, of which all but the `unfinished` are finished.

        These stay first in its queue until `wake`, and then run one at a time: one of them may be why all failed.
        """
        released = self._release_slot(ordering_key)
        queue = self._queues.setdefault(ordering_key, deque())
        self._deactivate(ordering_key, [*released, *queue])
        kept = set(map(id, unfinished))
        queue.extendleft(replace(entry, is_alone=True) for entry in reversed(released) if id(entry.item) in kept)
        self._suspended.add(ordering_key)

    def wake(self, ordering_key: OrderingKey) -> None:
        """Let the suspended item of `ordering_key` run again."""
        self._suspended.remove(ordering_key)
        for entry in self._queues[ordering_key]:
            self._active[entry.lane][ordering_key.organization_id] += 1
        self._mark_ready(ordering_key)

    def count_active(self, lane: Lane) -> int:
        """Count the items that run or wait, up to a quarter of the slots for each organization.

        Further items of one organization keep no slot busy that others could not use. Items that wait for a suspended
        one delay no other item and do not count.
        """
        return sum(min(items, self._counted) for items in self._active[lane].values())

    @property
    def _slots(self) -> int:
        """Return the number of slots that may be used now."""
        return self._max_in_flight if self._limit is None else max(1, min(self._max_in_flight, self._limit()))

    def _deactivate(self, ordering_key: OrderingKey, entries: Iterable[_Waiting[Item]]) -> None:
        for entry in entries:
            _count_down(self._active[entry.lane], ordering_key.organization_id)

    def _lanes_by_priority(self) -> tuple[Lane, Lane]:
        slots = self._slots
        if slots == 1:
            # Lanes can share a single slot only by turns.
            is_bulk_due = self._live_in_a_row >= LIVE_FOR_EACH_BULK
        else:
            is_bulk_due = self._running_in_lane[Lane.BULK] < math.ceil(slots * BULK_SHARE)
        return (Lane.BULK, Lane.LIVE) if is_bulk_due else (Lane.LIVE, Lane.BULK)

    def _mark_ready(self, ordering_key: OrderingKey) -> None:
        self._ready[self._queues[ordering_key][0].lane].add(ordering_key)

    def _take_turn(self, lane: Lane) -> OrderingKey | None:
        """Take the next ready ordering key, without organizations and groups that have reached their limit."""
        return self._ready[lane].choose_next(may_run=self._may_run, may_run_group=self._may_run_group)

    def _may_run(self, organization_id: str) -> bool:
        held = self._running_of_organization[organization_id]
        free = self._slots - len(self._running)
        return held == 0 or held + 1 <= SLOTS_FOR_EACH_FREE_ONE * (free - 1)

    def _may_run_group(self, organization_id: str, group: str) -> bool:
        share = max(1, self._slots * self._per_group // self._max_in_flight)
        return self._running_of_group[organization_id, group] < share

    def _start(self, ordering_key: OrderingKey) -> list[Item]:
        bundle = self._take_bundle(ordering_key)
        self._running[ordering_key] = bundle
        self._running_of_organization[ordering_key.organization_id] += 1
        self._running_of_group[ordering_key.organization_id, ordering_key.group] += 1
        lane = bundle[0].lane
        self._running_in_lane[lane] += 1
        self._live_in_a_row = self._live_in_a_row + 1 if lane is Lane.LIVE else 0
        return [entry.item for entry in bundle]

    def _take_bundle(self, ordering_key: OrderingKey) -> list[_Waiting[Item]]:
        queue = self._queues[ordering_key]
        bundle = [queue.popleft()]
        left = self._bundles.size_bytes - bundle[0].size_bytes
        while queue and len(bundle) < self._bundles.items and _go_together(bundle[0], queue[0], within_bytes=left):
            bundle.append(queue.popleft())
            left -= bundle[-1].size_bytes
        if not queue:
            del self._queues[ordering_key]
        return bundle

    def _release_slot(self, ordering_key: OrderingKey) -> list[_Waiting[Item]]:
        bundle = self._running.pop(ordering_key)
        self._running_in_lane[bundle[0].lane] -= 1
        _count_down(self._running_of_organization, ordering_key.organization_id)
        _count_down(self._running_of_group, (ordering_key.organization_id, ordering_key.group))
        return bundle


def _go_together(first: _Waiting[Item], other: _Waiting[Item], *, within_bytes: int) -> bool:
    is_one_alone = first.is_alone or other.is_alone
    return not is_one_alone and first.lane is other.lane and other.size_bytes <= within_bytes


class _RoundRobinQueue:
    """Queues the ready ordering keys of a lane: organizations take turns, and so do the groups of each."""

    def __init__(self) -> None:
        self._organizations: OrderedDict[str, OrderedDict[str, deque[OrderingKey]]] = OrderedDict()

    def add(self, ordering_key: OrderingKey) -> None:
        groups = self._organizations.setdefault(ordering_key.organization_id, OrderedDict())
        groups.setdefault(ordering_key.group, deque()).append(ordering_key)

    def choose_next(
        self, *, may_run: Callable[[str], bool], may_run_group: Callable[[str, str], bool]
    ) -> OrderingKey | None:
        """Take the next ordering key that may run; None if there is none."""
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
    """Move `name` behind the others, or remove it if its queue is empty."""
    if turns[name]:
        turns.move_to_end(name)
    else:
        del turns[name]


def _count_down(counts: Counter[Key], key: Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
