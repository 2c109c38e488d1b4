"""Edits of what somebody else has changed meanwhile: nothing is overwritten before both versions were seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kb_console.problems import ShownProblem

CHANGED_MEANWHILE: Final = 412
"""Status of a change of another version than the stored one."""


@dataclass(frozen=True, slots=True)
class TwoVersions:
    """A field in which what was typed differs from what is stored now."""

    name: str
    mine: str
    stored: str


def changed_meanwhile(what: str) -> ShownProblem:
    """Return the problem of an edit that began with an older version."""
    return ShownProblem(
        CHANGED_MEANWHILE,
        "Changed meanwhile",
        f"Somebody else has changed this {what} since you opened it. Nothing was saved: compare both versions below,"
        " then save yours over theirs or go on with theirs.",
    )


def find_changes(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted fields that differ from the stored ones."""
    return {name: value for name, value in wanted.items() if value != stored[name]}


def compare_versions(changes: Mapping[str, Any], stored: Mapping[str, Any]) -> list[TwoVersions]:
    """Return changed fields beside what is stored, in words."""
    return [
        TwoVersions(name.replace("_", " "), value_in_words(mine), value_in_words(stored[name]))
        for name, mine in changes.items()
    ]


def value_in_words(value: object) -> str:
    match value:
        case None | "" | []:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(str(each) for each in value)
        case dict():
            return ", ".join(f"{name.replace('_', ' ')}: {value_in_words(each)}" for name, each in value.items())
        case _:
            return str(value)
