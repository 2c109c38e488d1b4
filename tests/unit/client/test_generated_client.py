"""What is generated of the client is what `make client` writes now."""

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PACKAGE: Final = ROOT / "client/kb_client"


def test_the_synchronous_client_and_the_exceptions_are_current(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/generate_client.py", tmp_path], check=True)
    written = contents(tmp_path)
    assert Path("problems.py") in written
    committed = {**contents(PACKAGE / "sync_client", below=PACKAGE), **contents(PACKAGE / "problems.py", below=PACKAGE)}
    assert written == committed, "make client"


def contents(place: Path, *, below: Path | None = None) -> dict[Path, str]:
    files = [place] if place.is_file() else place.rglob("*.py")
    return {file.relative_to(below or place): file.read_text() for file in files}
