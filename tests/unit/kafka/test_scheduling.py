from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kb_shared.kafka.record import OrderingKey
from kb_shared.kafka.scheduling import BundleLimits, Lane, Scheduler

MAX_IN_FLIGHT = 9
PER_GROUP = 4
COUNTED = 2
"""A quarter of the slots."""
BUNDLES = BundleLimits(items=3, size_bytes=4)


@dataclass(frozen=True)
class Item:
    number: int
    ordering_key: OrderingKey
    lane: Lane
    size_bytes: int


places = st.builds(
    OrderingKey,
    organization_id=st.sampled_from(["acme", "bolt", "core"]),
    group=st.sampled_from("ab"),
    key=st.sampled_from("1234"),
)


Claimant = str | tuple[str, str]
"""An organization, or one of its groups."""


class SchedulerRules(RuleBasedStateMachine):
    """A model that knows only the promises: order, bundles, caps, turns, no record forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = MAX_IN_FLIGHT
        self.scheduler = Scheduler[Item](
            max_in_flight=MAX_IN_FLIGHT, per_group=PER_GROUP, limit=lambda: self.slots, bundles=BUNDLES
        )
        self.numbers = count()
        self.waiting: dict[OrderingKey, list[Item]] = defaultdict(list)
        self.running: dict[OrderingKey, list[Item]] = {}
        self.alone: set[Item] = set()
        self.suspended: set[OrderingKey] = set()
        self.overtaken: Counter[tuple[Lane, Claimant, Claimant]] = Counter()

    @rule(ordering_key=places, lane=st.sampled_from(Lane), size_bytes=st.sampled_from([1, 1, 2, 9]))
    def add(self, ordering_key: OrderingKey, lane: Lane, size_bytes: int) -> None:
        item = Item(next(self.numbers), ordering_key, lane, size_bytes)
        self.scheduler.add(item, ordering_key, lane, size_bytes=size_bytes)
        self.waiting[ordering_key].append(item)

    @rule(slots=st.integers(1, MAX_IN_FLIGHT))
    def limit(self, slots: int) -> None:
        """From now on fewer or more may run; what runs goes on."""
        self.slots = slots
        # Who could not run for the limit waits again for its turn.
        self.overtaken.clear()

    @rule()
    def start(self) -> None:
        startable = self._startable()
        bundle = self.scheduler.start_next()
        if not bundle:
            assert not startable, "a slot was free and an item could have had it"
            return
        first, ordering_key = bundle[0], bundle[0].ordering_key
        assert first in startable, "order of its place, or the cap of its group, or its pause was not kept"
        assert bundle == self._bundle_of(ordering_key)
        assert len(self.running) < self.slots
        self._check_turn(first, startable)
        self.running[ordering_key] = bundle
        del self.waiting[ordering_key][: len(bundle)]

    @precondition(lambda self: self.running)
    @rule(choices=st.data())
    def finish(self, choices: st.DataObject) -> None:
        ordering_key = choices.draw(st.sampled_from(sorted(self.running, key=str)))
        self.scheduler.finish(ordering_key)
        del self.running[ordering_key]

    @precondition(lambda self: self.running)
    @rule(choices=st.data())
    def suspend(self, choices: st.DataObject) -> None:
        ordering_key = choices.draw(st.sampled_from(sorted(self.running, key=str)))
        bundle = self.running.pop(ordering_key)
        kept = choices.draw(st.sets(st.sampled_from(bundle), min_size=1))
        unfinished = [item for item in bundle if item in kept]
        self.scheduler.suspend(ordering_key, unfinished)
        self.waiting[ordering_key][:0] = unfinished
        self.alone |= kept
        self.suspended.add(ordering_key)

    @precondition(lambda self: self.suspended)
    @rule(choices=st.data())
    def wake(self, choices: st.DataObject) -> None:
        ordering_key = choices.draw(st.sampled_from(sorted(self.suspended, key=str)))
        self.scheduler.wake(ordering_key)
        self.suspended.remove(ordering_key)

    @invariant()
    def slots_are_bounded(self) -> None:
        assert len(self.running) <= MAX_IN_FLIGHT
        assert all(n <= PER_GROUP for n in Counter(map(group_of, self.running)).values())

    @invariant()
    def no_organization_alone_holds_all_slots_but_one(self) -> None:
        held = Counter(ordering_key.organization_id for ordering_key in self.running)
        assert all(n < MAX_IN_FLIGHT - 1 for n in held.values())

    @invariant()
    def active_items_count_up_to_a_quarter_of_the_slots_for_each_organization(self) -> None:
        for lane in Lane:
            items = [item for bundle in self.running.values() for item in bundle]
            items += [
                item
                for ordering_key, queue in self.waiting.items()
                if ordering_key not in self.suspended
                for item in queue
            ]
            of_each = Counter(item.ordering_key.organization_id for item in items if item.lane is lane)
            assert self.scheduler.count_active(lane) == sum(min(n, COUNTED) for n in of_each.values())

    def teardown(self) -> None:
        """Whatever happened, all that is left runs to its end in order."""
        for ordering_key in self.suspended:
            self.scheduler.wake(ordering_key)
        self.suspended.clear()
        while any(self.waiting.values()) or self.running:
            self.start()
            for ordering_key in list(self.running):
                self.scheduler.finish(ordering_key)
                del self.running[ordering_key]

    def _startable(self) -> list[Item]:
        if len(self.running) >= self.slots:
            return []
        return [
            queue[0]
            for ordering_key, queue in self.waiting.items()
            if queue
            and ordering_key not in self.running
            and ordering_key not in self.suspended
            and self._is_allowed(ordering_key)
        ]

    def _bundle_of(self, ordering_key: OrderingKey) -> list[Item]:
        """Return the longest beginning of a queue that may run together."""
        queue = self.waiting[ordering_key]
        for count_of_items in range(min(len(queue), BUNDLES.items), 1, -1):
            bundle = queue[:count_of_items]
            fits = sum(item.size_bytes for item in bundle) <= BUNDLES.size_bytes
            if fits and len({item.lane for item in bundle}) == 1 and not self.alone.intersection(bundle):
                return bundle
        return queue[:1]

    def _is_allowed(self, ordering_key: OrderingKey) -> bool:
        of_group = sum(group_of(other) == group_of(ordering_key) for other in self.running)
        of_organization = sum(other.organization_id == ordering_key.organization_id for other in self.running)
        left_free = self.slots - len(self.running) - 1
        of_each_group = max(1, self.slots * PER_GROUP // MAX_IN_FLIGHT)
        return of_group < of_each_group and (of_organization == 0 or of_organization + 1 <= 7 * left_free)

    def _check_turn(self, item: Item, startable: list[Item]) -> None:
        """Check that no item that could have run is passed twice by the same organization, or group, of its lane."""
        rivals = [other.ordering_key for other in startable if other.lane is item.lane]
        others: set[Claimant] = {ordering_key.organization_id for ordering_key in rivals}
        others |= {
            group_of(ordering_key)
            for ordering_key in rivals
            if ordering_key.organization_id == item.ordering_key.organization_id
        }
        passed = others - {item.ordering_key.organization_id, group_of(item.ordering_key)}
        for claimant in passed:
            winner = item.ordering_key.organization_id if isinstance(claimant, str) else group_of(item.ordering_key)
            self.overtaken[item.lane, claimant, winner] += 1
            assert self.overtaken[item.lane, claimant, winner] <= 1
        waiting_on = {ordering_key.organization_id for ordering_key in rivals} | {
            group_of(ordering_key) for ordering_key in rivals
        }
        won = {item.ordering_key.organization_id, group_of(item.ordering_key)}
        for key in list(self.overtaken):
            lane, claimant, _ = key
            if lane is item.lane and (claimant in won or claimant not in waiting_on):
                # It ran, or was not able to: either way it waits no longer for this turn.
                del self.overtaken[key]


def group_of(ordering_key: OrderingKey) -> tuple[str, str]:
    return ordering_key.organization_id, ordering_key.group


SchedulerRules.TestCase.settings = settings(stateful_step_count=60)
TestSchedulerRules = SchedulerRules.TestCase


def ordering_key(group: str, key: str = "k", *, organization: str = "acme") -> OrderingKey:
    return OrderingKey(organization, group, key)


def started(scheduler: Scheduler[str]) -> Counter[str]:
    """Start all that may start; how many of each."""
    return Counter(item for bundle in iter(scheduler.start_next, []) for item in bundle)


def test_the_busiest_group_leaves_slots_for_others_of_its_organization() -> None:
    scheduler = Scheduler[str](max_in_flight=32, per_group=24)
    for n in range(40):
        scheduler.add("hot", ordering_key("hot", str(n)))
    assert started(scheduler) == {"hot": 24}
    for n in range(40):
        scheduler.add("second", ordering_key("second", str(n)))
    assert started(scheduler) == {"second": 4}


def test_the_groups_of_an_organization_together_leave_slots_for_another() -> None:
    scheduler = Scheduler[str](max_in_flight=32, per_group=24)
    for n in range(200):
        scheduler.add("greedy", ordering_key(f"kb {n % 5}", str(n)))
    assert started(scheduler) == {"greedy": 28}
    scheduler.add("newcomer", ordering_key("kb", organization="bolt"))
    assert started(scheduler) == {"newcomer": 1}


def test_several_organizations_that_never_finish_together_leave_slots_free() -> None:
    scheduler = Scheduler[str](max_in_flight=32, per_group=24)
    for n in range(200):
        for organization in ("a", "b", "c", "d"):
            scheduler.add(organization, ordering_key(f"kb {n % 5}", str(n), organization=organization))
    held = started(scheduler)
    assert max(held.values()) - min(held.values()) <= 1
    assert sum(held.values()) == 30
    scheduler.add("newcomer", ordering_key("kb", organization="e"))
    assert started(scheduler) == {"newcomer": 1}


def test_an_organization_with_many_groups_has_one_turn_as_one_with_a_single_group_has() -> None:
    scheduler = Scheduler[str](max_in_flight=1, per_group=1)
    for n in range(8):
        scheduler.add(f"many/{n % 4}", ordering_key(f"kb {n % 4}", str(n), organization="many"))
    for n in range(4):
        scheduler.add("single", ordering_key("kb", str(n), organization="single"))
    order = []
    while bundle := scheduler.start_next():
        [item] = bundle
        order.append(item)
        organization, _, _ = item.partition("/")
        running = next(iter(scheduler._running))
        assert running.organization_id == organization
        scheduler.finish(running)
    assert order == [
        "many/0", "single", "many/1", "single", "many/2", "single", "many/3", "single",
        "many/0", "many/1", "many/2", "many/3",
    ]  # fmt: skip


def test_a_suspended_item_gives_its_slot_away_but_not_its_turn() -> None:
    scheduler = Scheduler[str](max_in_flight=1, per_group=1)
    scheduler.add("first", ordering_key("a"))
    scheduler.add("second", ordering_key("a"))
    scheduler.add("other", ordering_key("b"))
    assert scheduler.start_next() == ["first"]
    scheduler.suspend(ordering_key("a"), ["first"])
    assert scheduler.start_next() == ["other"]
    scheduler.finish(ordering_key("b"))
    assert scheduler.start_next() == []
    scheduler.wake(ordering_key("a"))
    assert scheduler.start_next() == ["first"]
    scheduler.finish(ordering_key("a"))
    assert scheduler.start_next() == ["second"]


def test_bulk_work_gets_a_tenth_of_the_slots_under_live_load_and_all_of_them_without() -> None:
    scheduler = Scheduler[str](max_in_flight=10, per_group=10)
    for n in range(30):
        scheduler.add("live", ordering_key("l", str(n), organization=f"live {n}"), Lane.LIVE)
        scheduler.add("bulk", ordering_key("b", str(n), organization=f"bulk {n}"), Lane.BULK)
    assert started(scheduler) == {"live": 9, "bulk": 1}

    idle = Scheduler[str](max_in_flight=10, per_group=10)
    for n in range(30):
        idle.add("bulk", ordering_key("b", str(n), organization=f"bulk {n}"), Lane.BULK)
    assert started(idle) == {"bulk": 10}


def test_bulk_work_gets_its_tenth_also_where_live_work_of_the_same_organization_takes_all_it_may() -> None:
    scheduler = Scheduler[str](max_in_flight=10, per_group=10)
    for n in range(30):
        scheduler.add("live", ordering_key("l", str(n)), Lane.LIVE)
        scheduler.add("bulk", ordering_key("b", str(n)), Lane.BULK)
    assert started(scheduler) == {"live": 7, "bulk": 1}


def test_items_beyond_a_lowered_limit_go_on_and_no_other_begins_until_a_slot_is_free() -> None:
    limits = [10]
    scheduler = Scheduler[str](max_in_flight=10, per_group=10, limit=lambda: limits[0])
    for n in range(20):
        scheduler.add(f"{n}", ordering_key("g", organization=f"org {n}"))
    assert sum(started(scheduler).values()) == 10
    limits[0] = 2
    for n in range(8):
        scheduler.finish(ordering_key("g", organization=f"org {n}"))
        assert scheduler.start_next() == []
    scheduler.finish(ordering_key("g", organization="org 8"))
    assert scheduler.start_next() == ["10"]
    limits[0] = 10
    assert sum(started(scheduler).values()) == 8


def test_with_one_slot_a_tenth_of_the_turns_is_for_bulk_work() -> None:
    scheduler = Scheduler[str](max_in_flight=32, per_group=24, limit=lambda: 1)
    for n in range(40):
        scheduler.add("live", ordering_key("l", str(n)), Lane.LIVE)
        scheduler.add("bulk", ordering_key("b", str(n)), Lane.BULK)
    order = []
    for _ in range(40):
        order += scheduler.start_next()
        assert scheduler.start_next() == []
        [running] = scheduler._running
        scheduler.finish(running)
    assert order == [*["live"] * 9, "bulk"] * 4


def test_with_few_slots_organizations_take_turns_as_with_many() -> None:
    scheduler = Scheduler[str](max_in_flight=32, per_group=24, limit=lambda: 2)
    for n in range(8):
        scheduler.add("busy", ordering_key("kb", str(n), organization="busy"))
    for n in range(3):
        scheduler.add("other", ordering_key("kb", str(n), organization="other"))
    assert started(scheduler) == {"busy": 1, "other": 1}


def test_with_one_slot_bulk_work_does_not_starve_live_work() -> None:
    scheduler = Scheduler[str](max_in_flight=1, per_group=1)
    scheduler.add("bulk", ordering_key("b"), Lane.BULK)
    scheduler.add("live", ordering_key("l"), Lane.LIVE)
    assert scheduler.start_next() == ["live"]


def test_an_item_waits_until_the_one_before_it_with_its_ordering_key_has_finished() -> None:
    scheduler = Scheduler[str](max_in_flight=10, per_group=10)
    scheduler.add("first", ordering_key("a"))
    assert scheduler.start_next() == ["first"]
    scheduler.add("second", ordering_key("a"))
    assert scheduler.start_next() == []
    scheduler.finish(ordering_key("a"))
    assert scheduler.start_next() == ["second"]


def test_one_ordering_key_keeps_its_order_across_lanes() -> None:
    scheduler = Scheduler[str](max_in_flight=10, per_group=10)
    scheduler.add("bulk first", ordering_key("a"), Lane.BULK)
    scheduler.add("then live", ordering_key("a"), Lane.LIVE)
    assert scheduler.start_next() == ["bulk first"]
    assert scheduler.start_next() == []
    scheduler.finish(ordering_key("a"))
    assert scheduler.start_next() == ["then live"]


def test_the_items_of_a_bundle_that_failed_are_tried_one_by_one() -> None:
    scheduler = Scheduler[str](max_in_flight=10, per_group=10, bundles=BundleLimits(items=3, size_bytes=10))
    for name in ("a", "b", "c", "d", "e"):
        scheduler.add(name, ordering_key("a"), size_bytes=1)
    assert scheduler.start_next() == ["a", "b", "c"]
    scheduler.suspend(ordering_key("a"), ["c", "a"])
    scheduler.wake(ordering_key("a"))
    order = []
    while bundle := scheduler.start_next():
        order.append(bundle)
        scheduler.finish(ordering_key("a"))
    assert order == [["a"], ["c"], ["d", "e"]]


def test_a_bundle_takes_one_slot() -> None:
    scheduler = Scheduler[str](
        max_in_flight=10, per_group=10, limit=lambda: 2, bundles=BundleLimits(items=100, size_bytes=100)
    )
    for _ in range(50):
        scheduler.add("many", ordering_key("a"))
    scheduler.add("other", ordering_key("b", organization="bolt"))
    assert started(scheduler) == {"many": 50, "other": 1}
