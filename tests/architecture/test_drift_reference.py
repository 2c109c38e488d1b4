"""docs/reference/drift.md describes the kinds of drift that the reconciler knows, and no others."""

import re
from pathlib import Path

from kb_api.drift_descriptions import DESCRIPTIONS
from kb_reconciler.drift.registry import NAMES

ROOT = Path(__file__).parents[2]
DRIFT = ROOT / "services/reconciler/kb_reconciler/drift"
KINDS = re.search(
    r"^## Kinds\n(?P<table>.*?)^## ", (ROOT / "docs/reference/drift.md").read_text(), re.MULTILINE | re.DOTALL
)


def test_the_reference_lists_every_kind_of_drift() -> None:
    assert KINDS is not None
    documented = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", KINDS["table"], re.MULTILINE)
    described = [(name, each.problem, each.repair) for name, each in DESCRIPTIONS.items()]
    assert sorted(documented) == sorted(described)
    assert DESCRIPTIONS.keys() == set(NAMES)


def test_each_kind_of_drift_has_a_file_of_its_own() -> None:
    files = {path.stem for path in DRIFT.glob("*.py")}
    assert set(NAMES) <= files
