"""A failpoint that no code reaches tests nothing, and one that is not in the list can't be armed."""

import re
from pathlib import Path

from kb_shared import failpoints

ROOT = Path(__file__).parents[2]
REACHED = re.compile(r"reach\((?P<argument>[^)]*)\)")
NAME = re.compile(r'"([a-z_]+\.[a-z_]+)"')


def test_every_failpoint_is_reached_somewhere_and_every_one_reached_is_listed() -> None:
    sources = [*ROOT.glob("contracts/**/*.py"), *ROOT.glob("shared/**/*.py"), *ROOT.glob("services/**/*.py")]
    calls = [call["argument"] for source in sources for call in REACHED.finditer(source.read_text())]
    assert {name for call in calls for name in NAME.findall(call)} == set(failpoints.NAMES)
