"""The unit tests of the rules notice a rule that always or never fires, and the campaign notices tests that do not."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import promql_parser
import pytest

from tests.alerts.promtool import read_cases, read_rule_groups
from tests.alerts.rule_mutants import RuleCampaign, RuleOutcome, basic_mutants_of, mutants_of
from tests.deployment.promql import nodes_of


@pytest.mark.prometheus
def test_a_rule_that_always_or_never_does_something_is_noticed() -> None:
    campaign = RuleCampaign.of_the_repository()
    verdicts = list(campaign.try_all(basic_mutants_of(campaign.groups)))
    missed = [verdict for verdict in verdicts if verdict.outcome is not RuleOutcome.CAUGHT]
    assert not missed, "\n".join(f"{each.outcome} {each.mutant.name}: {each.detail}" for each in missed)
    assert len(verdicts) > 150


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [("never", RuleOutcome.CAUGHT), ("always", RuleOutcome.SURVIVED), ("for-none", RuleOutcome.SURVIVED)],
)
def test_a_test_that_only_shows_that_an_alert_fires_lets_mutants_survive(fault: str, outcome: RuleOutcome) -> None:
    campaign = RuleCampaign.of_the_repository()
    cases = [case for case in campaign.cases if case.name.startswith("KbMongoSlow pages when swaps are slow")]
    mutant = next(each for each in mutants_of(campaign.groups) if each.name == f"KbMongoSlow {fault}")
    assert len(cases) == 1
    assert replace(campaign, cases=cases).try_one(mutant).outcome is outcome


@pytest.mark.prometheus
def test_a_test_that_fails_anyway_and_a_fault_that_is_no_rule_have_caught_nothing() -> None:
    campaign = RuleCampaign.of_the_repository()
    mutant = next(each for each in mutants_of(campaign.groups) if each.name == "KbUnsendableMessages never")
    assert campaign.try_one(mutant).outcome is RuleOutcome.CAUGHT
    assert replace(campaign, groups=mutant.planted_in(campaign.groups), _sound=set()).try_one(mutant).outcome is (
        RuleOutcome.UNKNOWN
    )
    broken = replace(mutant, changed={**mutant.changed, "expr": "max(kb_outbox_set_aside) >"})
    assert campaign.try_one(broken).outcome is RuleOutcome.UNKNOWN
    assert replace(campaign, cases=[]).try_one(mutant).outcome is RuleOutcome.UNKNOWN


def test_every_rule_has_mutants_that_are_queries_and_differ_from_it() -> None:
    groups = read_rule_groups()
    mutants = mutants_of(groups)
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        promql_parser.parse(mutant.changed["expr"])
        assert mutant.changed != groups[mutant.group]["rules"][mutant.position], mutant.name
    faults = {(mutant.group, mutant.position): set[str]() for mutant in mutants}
    for mutant in mutants:
        faults[mutant.group, mutant.position].add(mutant.fault)
    for (group, position), of_rule in faults.items():
        is_alert = "alert" in groups[group]["rules"][position]
        assert of_rule >= ({"never", "always", "every-series"} if is_alert else {"records-0", "records-1"})
    assert len(faults) == sum(len(group["rules"]) for group in groups)


def test_no_comparison_with_a_number_is_overlooked() -> None:
    groups = read_rule_groups()
    raised = Counter(
        (mutant.group, mutant.position) for mutant in mutants_of(groups) if re.fullmatch(r"limit-\d+-up", mutant.fault)
    )
    assert raised.total() > 80
    for number, group in enumerate(groups):
        for position, rule in enumerate(group["rules"]):
            assert raised[number, position] == comparisons_with_numbers(rule["expr"]), rule["expr"]


def comparisons_with_numbers(query: str) -> int:
    nodes = [node for node in nodes_of(promql_parser.parse(query)) if isinstance(node, promql_parser.BinaryExpr)]
    compared = [node for node in nodes if str(node.op) in {"==", "!=", "<", "<=", ">", ">="}]
    return sum(all(not is_series(each) for each in nodes_of(node.rhs)) for node in compared)


def is_series(node: Any) -> bool:
    return isinstance(node, promql_parser.VectorSelector | promql_parser.Call)


def test_values_of_series_are_read_as_promtool_does() -> None:
    case = next(case for case in read_cases() if case.name.startswith("KbTargetDown does not fire for a restart"))
    assert [series["values"] for series in case.content["input_series"]] == ["1x5 0x5 1x20"]
