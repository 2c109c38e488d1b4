from collections import defaultdict
from itertools import pairwise

import pytest

from tests.chaos.knowledge_plan import DeleteEntry, WriteEntry
from tests.chaos.outages import Outage, create_outages
from tests.chaos.plan import READ, WATCHED_TAG, Create, Deliver, Drop, FaultPlan, Retag, create_plan
from tests.chaos.restore_midway import split_plan
from tests.chaos.workload import Upstream

PLANS = [(seed, seconds, replicas) for seed in range(20) for seconds, replicas in ((8.0, 1), (20.0, 2))]


def _plan(seed: int, seconds: float, replicas: int) -> FaultPlan:
    return create_plan(seed, seconds=seconds, replicas=replicas, upstream=Upstream("local"))


@pytest.mark.parametrize(("seed", "seconds", "replicas"), PLANS)
def test_a_plan_can_be_carried_out(seed: int, seconds: float, replicas: int) -> None:
    plan = _plan(seed, seconds, replicas)
    assert plan == _plan(seed, seconds, replicas), "a seed stands for one plan"
    assert all(0 <= change.at_s <= seconds for change in plan.changes)
    assert all(one.at_s <= other.at_s for one, other in pairwise(plan.changes))
    for faults in (plan.process_faults, plan.provider_faults, plan.runner_kills):
        assert all(0 <= fault.at_s <= fault.until_s <= seconds for fault in faults)
        assert all(one.until_s <= other.at_s for one, other in pairwise(faults))
    assert all(getattr(fault, "replica", 0) < replicas for fault in plan.process_faults)
    _assert_revisions_are_unambiguous(plan)
    _assert_knowledge_bases_are_there_when_changed(plan)
    _assert_entries_are_there_when_deleted(plan)


@pytest.mark.parametrize(("seed", "seconds", "replicas"), PLANS)
def test_the_parts_of_a_plan_contain_all_changes_and_no_fault_across_the_middle(
    seed: int, seconds: float, replicas: int
) -> None:
    plan = _plan(seed, seconds, replicas)
    before, after = split_plan(plan)
    assert [*before.changes] == [change for change in plan.changes if change.at_s < before.seconds]
    assert [each.at_s + before.seconds for each in after.changes] == pytest.approx(
        [change.at_s for change in plan.changes if change.at_s >= before.seconds]
    )
    for part in (before, after):
        for faults in (part.process_faults, part.provider_faults, part.runner_kills):
            assert all(0 <= fault.at_s <= fault.until_s <= part.seconds for fault in faults)


def _assert_revisions_are_unambiguous(plan: FaultPlan) -> None:
    """The oracle requires it: only the projection decides which of two equal revisions wins."""
    meanings = defaultdict(set)
    for change in plan.changes:
        if isinstance(change, Deliver):
            event = change.event
            meanings[event.document_id, event.revision].add(event.model_dump_json())
    assert all(len(meaning) == 1 for meaning in meanings.values())


def _assert_knowledge_bases_are_there_when_changed(plan: FaultPlan) -> None:
    there = {READ}
    for change in plan.changes:
        match change:
            case Create():
                assert change.name not in there
                there.add(change.name)
            case Retag():
                assert change.name in there
                assert change.name != READ or WATCHED_TAG in change.tag_ids
            case Drop():
                there.remove(change.name)
            case _:
                pass


def _assert_entries_are_there_when_deleted(plan: FaultPlan) -> None:
    there: set[str] = set()
    for change in plan.changes:
        if isinstance(change, WriteEntry):
            there.add(change.entry_id)
        elif isinstance(change, DeleteEntry):
            there.remove(change.entry_id)


def test_together_plans_contain_every_kind_of_change_and_fault() -> None:
    plans = [_plan(*each) for each in PLANS]
    kinds = {type(each).__name__ for plan in plans for each in (*plan.changes, *plan.process_faults)}
    assert kinds == {
        *("Deliver", "SendMalformed", "ReviseWatched", "Create", "Retag", "Drop"),
        *("WriteEntry", "DeleteEntry", "ReviseWatchedEntry", "ChangeSite", "RunSource"),
        *("Kill", "KillAt", "Freeze", "Join", "RestartBroker"),
    }
    programs = [fault.program["faults"][0] for plan in plans for fault in plan.provider_faults]
    assert {429, 503} <= {program.get("status") for program in programs}
    assert {"short", "wrong_dimension", "nan"} <= {program.get("kind") for program in programs}


def test_together_plans_give_entries_embedding_texts_and_change_and_remove_them() -> None:
    changes = set()
    for each in PLANS:
        last: dict[str, str | None] = {}
        for change in _plan(*each).changes:
            if isinstance(change, WriteEntry):
                former = last.get(change.entry_id)
                changes.add((former is None, change.embedding_text is None, former == change.embedding_text))
                last[change.entry_id] = change.embedding_text
    kept, absent = (False, False, True), (True, True, True)
    given, changed, removed = (True, False, False), (False, False, False), (False, True, False)
    assert changes == {kept, absent, given, changed, removed}


def test_a_seed_stands_for_one_row_of_outages_that_leave_a_majority() -> None:
    for seed in range(50):
        outages = create_outages(seed, seconds=20, brokers=3, members=3)
        assert outages == create_outages(seed, seconds=20, brokers=3, members=3)
        for faults in (outages.brokers, outages.members):
            assert faults
            assert all(0 <= fault.at_s <= fault.until_s <= 20 and fault.number < 3 for fault in faults)
            assert all(one.until_s < other.at_s for one, other in pairwise(faults))


def test_together_seeds_contain_every_kind_of_outage_of_leaders_and_of_others() -> None:
    outages = [create_outages(seed, seconds=20, brokers=3, members=3) for seed in range(20)]
    of_brokers = {(fault.outage, fault.targets_leader) for each in outages for fault in each.brokers}
    of_members = {(fault.outage, fault.targets_leader) for each in outages for fault in each.members}
    both = {
        (outage, targets_leader)
        for outage in (Outage.KILL, Outage.FREEZE, Outage.RESTART)
        for targets_leader in (True, False)
    }
    assert of_brokers == both
    assert of_members == both | {(Outage.STEP_DOWN, True)}


def test_a_single_server_has_no_outages() -> None:
    outages = create_outages(1, seconds=20, brokers=0, members=1)
    assert (list(outages.brokers), list(outages.members)) == ([], [])
