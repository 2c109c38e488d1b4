"""Decides what a batch of writes changes: equal rows are left alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class PutOutcome:
    """Ids of a batch by what happened to them."""

    created: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    unchanged: frozenset[str] = frozenset()
    missing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Nodes that do not exist, by the id of the edge that was therefore not written."""

    @property
    def written(self) -> frozenset[str]:
        return self.created | self.changed

    @classmethod
    def compare(cls, wanted: Mapping[str, object], stored: Mapping[str, object]) -> Self:
        """Compare what a batch wants to write with what is stored."""
        equal = {each for each, value in wanted.items() if each in stored and stored[each] == value}
        return cls(
            created=frozenset(wanted.keys() - stored.keys()),
            changed=frozenset((wanted.keys() & stored.keys()) - equal),
            unchanged=frozenset(equal),
        )

    def __add__(self, other: "PutOutcome") -> "PutOutcome":
        return PutOutcome(
            created=self.created | other.created,
            changed=self.changed | other.changed,
            unchanged=self.unchanged | other.unchanged,
            missing={**self.missing, **other.missing},
        )
