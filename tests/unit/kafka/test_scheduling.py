from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kb_shared.kafka.record import Place
from kb_shared.kafka.scheduling import Lane, Scheduler

MAX_IN_FLIGHT = 5
PER_GROUP = 3


@dataclass(frozen=True)
class Item:
    number: int
    place: Place
    lane: Lane


places = st.builds(Place, group=st.sampled_from("abcd"), key=st.sampled_from("1234"))


class SchedulerRules(RuleBasedStateMachine):
    """A model that knows only the promises: order, caps, turns, nobody forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler[Item](max_in_flight=MAX_IN_FLIGHT, per_group=PER_GROUP)
        self.numbers = count()
        self.waiting: dict[Place, list[Item]] = defaultdict(list)
        self.running: dict[Place, Item] = {}
        self.suspended: set[Place] = set()
        self.overtaken: Counter[tuple[Lane, str, str]] = Counter()

    @rule(place=places, lane=st.sampled_from(Lane))
    def add(self, place: Place, lane: Lane) -> None:
        item = Item(next(self.numbers), place, lane)
        self.scheduler.add(item, place, lane)
        self.waiting[place].append(item)

    @rule()
    def start(self) -> None:
        startable = self._startable()
        item = self.scheduler.start_next()
        if item is None:
            assert not startable, "a slot was free and somebody could have had it"
            return
        assert item in startable, "order of its place, or the cap of its group, or its pause was not kept"
        self._check_turn(item, startable)
        self.running[item.place] = item
        self.waiting[item.place].remove(item)

    @precondition(lambda self: self.running)
    @rule(choices=st.data())
    def finish(self, choices: st.DataObject) -> None:
        place = choices.draw(st.sampled_from(sorted(self.running, key=str)))
        self.scheduler.finish(place)
        del self.running[place]

    @precondition(lambda self: self.running)
    @rule(choices=st.data())
    def suspend(self, choices: st.DataObject) -> None:
        place = choices.draw(st.sampled_from(sorted(self.running, key=str)))
        self.scheduler.suspend(place)
        self.waiting[place].insert(0, self.running.pop(place))
        self.suspended.add(place)

    @precondition(lambda self: self.suspended)
    @rule(choices=st.data())
    def wake(self, choices: st.DataObject) -> None:
        place = choices.draw(st.sampled_from(sorted(self.suspended, key=str)))
        self.scheduler.wake(place)
        self.suspended.remove(place)

    @invariant()
    def slots_are_bounded(self) -> None:
        assert len(self.running) <= MAX_IN_FLIGHT
        assert all(n <= PER_GROUP for n in Counter(place.group for place in self.running).values())

    @invariant()
    def active_counts_all_but_what_stands_behind_a_pause(self) -> None:
        for lane in Lane:
            items = [*self.running.values()]
            items += [item for place, queue in self.waiting.items() if place not in self.suspended for item in queue]
            assert self.scheduler.active(lane) == sum(item.lane is lane for item in items)

    def teardown(self) -> None:
        """Whatever happened, all that is left runs to its end in order."""
        for place in self.suspended:
            self.scheduler.wake(place)
        self.suspended.clear()
        while any(self.waiting.values()) or self.running:
            self.start()
            for place in list(self.running):
                self.scheduler.finish(place)
                del self.running[place]

    def _startable(self) -> list[Item]:
        if len(self.running) >= MAX_IN_FLIGHT:
            return []
        of_group = Counter(place.group for place in self.running)
        return [
            queue[0]
            for place, queue in self.waiting.items()
            if queue and place not in self.running and place not in self.suspended and of_group[place.group] < PER_GROUP
        ]

    def _check_turn(self, item: Item, startable: list[Item]) -> None:
        """A group that could have run is not passed twice by the same other group of its lane."""
        groups = {other.place.group for other in startable if other.lane is item.lane} - {item.place.group}
        for group in groups:
            self.overtaken[item.lane, group, item.place.group] += 1
            assert self.overtaken[item.lane, group, item.place.group] <= 1
        for key in list(self.overtaken):
            if key[0] is item.lane and key[1] not in groups:
                # It ran, or was not able to: either way it waits no longer for this turn.
                del self.overtaken[key]


SchedulerRules.TestCase.settings = settings(stateful_step_count=60)
TestSchedulerRules = SchedulerRules.TestCase


def place(group: str, key: str = "k") -> Place:
    return Place(group, key)


def test_the_busiest_group_leaves_slots_for_a_newcomer() -> None:
    scheduler = Scheduler[str](max_in_flight=4, per_group=3)
    for n in range(10):
        scheduler.add(f"hot {n}", place("hot", str(n)))
    assert [scheduler.start_next() for _ in range(4)] == ["hot 0", "hot 1", "hot 2", None]
    scheduler.add("newcomer", place("quiet"))
    assert scheduler.start_next() == "newcomer"


def test_a_suspended_item_gives_its_slot_away_but_not_its_turn() -> None:
    scheduler = Scheduler[str](max_in_flight=1, per_group=1)
    scheduler.add("first", place("a"))
    scheduler.add("second", place("a"))
    scheduler.add("other", place("b"))
    assert scheduler.start_next() == "first"
    scheduler.suspend(place("a"))
    assert scheduler.start_next() == "other"
    scheduler.finish(place("b"))
    assert scheduler.start_next() is None
    scheduler.wake(place("a"))
    assert scheduler.start_next() == "first"
    scheduler.finish(place("a"))
    assert scheduler.start_next() == "second"


def test_bulk_work_gets_a_tenth_of_the_slots_under_live_load_and_all_of_them_without() -> None:
    scheduler = Scheduler[str](max_in_flight=10, per_group=10)
    for n in range(30):
        scheduler.add("live", place("l", str(n)), Lane.LIVE)
        scheduler.add("bulk", place("b", str(n)), Lane.BULK)
    assert Counter(scheduler.start_next() for _ in range(10)) == {"live": 9, "bulk": 1}

    idle = Scheduler[str](max_in_flight=10, per_group=10)
    for n in range(30):
        idle.add("bulk", place("b", str(n)), Lane.BULK)
    assert Counter(idle.start_next() for _ in range(11)) == {"bulk": 10, None: 1}


def test_with_one_slot_bulk_work_does_not_starve_live_work() -> None:
    scheduler = Scheduler[str](max_in_flight=1, per_group=1)
    scheduler.add("bulk", place("b"), Lane.BULK)
    scheduler.add("live", place("l"), Lane.LIVE)
    assert scheduler.start_next() == "live"


def test_one_place_keeps_its_order_across_lanes() -> None:
    scheduler = Scheduler[str](max_in_flight=10, per_group=10)
    scheduler.add("bulk first", place("a"), Lane.BULK)
    scheduler.add("then live", place("a"), Lane.LIVE)
    assert scheduler.start_next() == "bulk first"
    assert scheduler.start_next() is None
    scheduler.finish(place("a"))
    assert scheduler.start_next() == "then live"
