"""docs/reference/command-line.md says what the parsers say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_page_is_current(tmp_path: Path) -> None:
    written = tmp_path / "command-line.md"
    subprocess.run([sys.executable, ROOT / "scripts/generate_command_line_page.py", written], check=True)
    assert written.read_text() == (ROOT / "docs/reference/command-line.md").read_text(), "make command-line"
