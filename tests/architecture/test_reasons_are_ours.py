"""No error passes on the words of pydantic: `kb_contracts.reasons` has one language for all who send something."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOREIGN = re.compile(r"""\[["']msg["']\]|"Input should|"Field required""")


def test_no_package_repeats_messages_of_pydantic() -> None:
    sources = [
        path
        for packages in ("contracts/kb_*", "shared/kb_*", "services/*/kb_*", "client/kb_*", "local/kb_*")
        for package in ROOT.glob(packages)
        for path in package.rglob("*.py")
    ]
    assert len(sources) > 500
    assert [path.name for path in sources if FOREIGN.search(path.read_text(encoding="utf-8"))] == []
