"""Patterns of `re` have no possessive quantifier behind a group: Python before 3.11.4 (Debian 12) matches it wrongly.

An atomic group does the same: `(?>(?:...)*)` for `(?:...)*+`.
"""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("client", "contracts", "local", "services", "shared")
OF_ANOTHER_ENGINE: Final = frozenset({"word_segmentation.py"})
"""Files whose patterns are of the package `regex`."""
POSSESSIVE_GROUP: Final = re.compile(r"\(\?[^\"'\n]*(?<!\\)\)[*+?]\+")


def test_no_group_of_a_pattern_is_possessive() -> None:
    sources = [source for package in PACKAGES for source in (ROOT / package).rglob("*.py")]
    assert sources
    found = {
        str(source.relative_to(ROOT)): POSSESSIVE_GROUP.findall(source.read_text())
        for source in sources
        if source.name not in OF_ANOTHER_ENGINE
    }
    assert {name: patterns for name, patterns in found.items() if patterns} == {}


def test_a_possessive_group_is_found() -> None:
    assert POSSESSIVE_GROUP.search(r"""_WORD = re.compile(rf"{_RUN}(?:(?=\d){_RUN})*+")""")
    assert not POSSESSIVE_GROUP.search(r"""_WORD = re.compile(rf"{_RUN}(?>(?:(?=\d)\s*+{_RUN})*)")""")
