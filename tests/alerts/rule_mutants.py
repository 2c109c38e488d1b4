"""`python -m tests.alerts.rule_mutants`: plant one fault after the other in the rules; promtool's tests must fail.

never           an alert whose condition never holds
always          an alert that also fires when its condition does not hold
every-series    an alert without its limits: it fires for each series that it looks at
records-0, -1   a recorded series that is 0, or 1, whatever happens
limit-N-up      the Nth number that something is compared with is ten times as high; 1 instead of 0
limit-N-down    a tenth of it; `>= 0` instead of 0
for-none, for-long, keep-none, keep-long
                `for` or `keep_firing_for` is left out, or is ten times as long
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import promql_parser

from tests.alerts.promtool import RuleGroups, RuleNames, RuleTestCase, name_of, read_cases, read_rule_groups, run_case

AT_ONCE: Final = 2
_LIMIT: Final = re.compile(
    r" (?P<comparison>[<>]=?|==)(?P<bool> bool)? (?P<limit>[\d.]+|\([\d.]+ \* [\d.]+\))(?=[\s)]|$)"
)
_BASIC: Final = frozenset({"never", "always", "every-series", "records-0", "records-1"})
_TIMES: Final = {"for": "for", "keep_firing_for": "keep"}


@dataclass(frozen=True, slots=True)
class RuleMutant:
    rule: str
    """Its name; if several have it, with the label that distinguishes them."""
    fault: str
    group: int
    """Position of its group in all groups."""
    position: int
    """Position in its group."""
    changed: Mapping[str, Any]
    """The rule with the fault in it."""

    @property
    def name(self) -> str:
        return f"{self.rule} {self.fault}"

    def planted_in(self, groups: RuleGroups) -> RuleGroups:
        """Return a copy of all rules with the fault in them."""
        planted = deepcopy(list(groups))
        planted[self.group]["rules"][self.position] = dict(self.changed)
        return planted


def mutants_of(groups: RuleGroups) -> list[RuleMutant]:
    """Return all mutants of all rules, in their order."""
    names = [name_of(rule) for group in groups for rule in group["rules"]]
    return [
        RuleMutant(_title(rule, names), fault, number, position, {**rule, **change})
        for number, group in enumerate(groups)
        for position, rule in enumerate(group["rules"])
        for fault, change in _faults(rule)
    ]


def basic_mutants_of(groups: RuleGroups) -> list[RuleMutant]:
    """Return those that always or never do something: a rule without a test for both survives them."""
    return [mutant for mutant in mutants_of(groups) if mutant.fault in _BASIC]


def _title(rule: Mapping[str, Any], names: Sequence[str]) -> str:
    name = name_of(rule)
    if names.count(name) == 1:
        return name
    return f"{name}[{rule['labels'].get('window') or rule['labels']['severity']}]"


def _faults(rule: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each fault with what it changes in a rule."""
    if "record" in rule:
        yield "records-0", {"expr": "vector(0)"}
        yield "records-1", {"expr": "vector(1)"}
    else:
        yield "never", {"expr": f"({rule['expr']}) unless on() vector(1)"}
        yield "always", {"expr": f"({rule['expr']}) or on() vector(1)"}
        yield "every-series", {"expr": _LIMIT.sub("", rule["expr"])}
    yield from _faults_of_limits(rule["expr"])
    for key, short in _TIMES.items():
        if key in rule:
            duration = promql_parser.parse_duration(rule[key])
            yield f"{short}-none", {key: "0s"}
            yield f"{short}-long", {key: f"{10 * round(duration.total_seconds())}s"}


def _faults_of_limits(expr: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, match in enumerate(_LIMIT.finditer(expr), start=1):
        limit, compared = match["limit"], match["comparison"] + (match["bool"] or "")
        higher, lower = f"{compared} ({limit} * 10)", f"{compared} ({limit} / 10)"
        if limit == "0":
            higher, lower = f"{compared} 1", f">={match['bool'] or ''} 0"
        for direction, changed in (("up", higher), ("down", lower)):
            yield f"limit-{number}-{direction}", {"expr": f"{expr[: match.start()]} {changed}{expr[match.end() :]}"}


class RuleOutcome(StrEnum):
    CAUGHT = "caught"
    SURVIVED = "survived"
    UNKNOWN = "unknown"
    """No test asks for the rule, the test fails without the fault, too, or promtool can't work with the fault."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    mutant: RuleMutant
    outcome: RuleOutcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RuleCampaign:
    """Tries mutants of rules on the tests that ask for them."""

    groups: RuleGroups
    cases: Sequence[RuleTestCase]
    _sound: set[str] = field(default_factory=set)
    """Names of tests that pass without a fault."""

    @classmethod
    def of_the_repository(cls) -> "RuleCampaign":
        return cls(read_rule_groups(), read_cases())

    def try_all(self, mutants: Sequence[RuleMutant]) -> Iterator[RuleVerdict]:
        """Try two mutants at once; return the verdicts in order."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(self.try_one, mutants)

    def try_one(self, mutant: RuleMutant) -> RuleVerdict:
        cases = RuleNames.from_groups(self.groups).cases_of(name_of(mutant.changed), self.cases)
        if not cases:
            return RuleVerdict(mutant, RuleOutcome.UNKNOWN, "no test asks for it")
        planted = mutant.planted_in(self.groups)
        with tempfile.TemporaryDirectory(prefix="kb-rules-") as folder:
            for case in cases:
                result = run_case(case, planted, Path(folder))
                if not result.has_passed:
                    # A test has found another result than it expects, and not a rule that can't be read.
                    is_caught = "got:" in result.output and self._is_sound(case, Path(folder))
                    outcome = RuleOutcome.CAUGHT if is_caught else RuleOutcome.UNKNOWN
                    return RuleVerdict(mutant, outcome, f"{case.name}\n{result.output}")
        return RuleVerdict(mutant, RuleOutcome.SURVIVED, f"{len(cases)} tests pass")

    def _is_sound(self, case: RuleTestCase, folder: Path) -> bool:
        if case.name not in self._sound and run_case(case, self.groups, folder).has_passed:
            self._sound.add(case.name)
        return case.name in self._sound


def main() -> None:
    options = _options()
    campaign = RuleCampaign.of_the_repository()
    chosen = [each for each in mutants_of(campaign.groups) if any(fnmatch(each.name, only) for only in options.only)]
    if not chosen:
        sys.exit(f"no mutant is called {' or '.join(options.only)}")
    outcomes: list[RuleOutcome] = []
    for verdict in campaign.try_all(chosen):
        outcomes.append(verdict.outcome)
        if verdict.outcome is not RuleOutcome.CAUGHT:
            _say(f"{verdict.outcome.upper():<9} {verdict.mutant.name}: {verdict.detail}")
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in RuleOutcome)
    _say(f"{len(chosen)} mutants: {counts}")
    sys.exit(0 if set(outcomes) == {RuleOutcome.CAUGHT} else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.alerts.rule_mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("only", nargs="*", default=["*"], metavar="NAME", help="of mutants; may hold * and ?")
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # its answer


if __name__ == "__main__":
    main()
