"""Files of other projects are unchanged, and say where they come from."""

import hashlib
import json
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SWAGGER_UI: Final = ROOT / "shared/kb_shared/http/swagger_ui"
FOLDERS: Final = (ROOT / "services/console/kb_console/static/vendor", ROOT / "tests/console/vendor")
OURS: Final = {"index.html", "initializer.js", "vendored.json"}


def test_the_files_of_swagger_ui_are_those_of_the_package() -> None:
    manifest = json.loads((SWAGGER_UI / "vendored.json").read_text())
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in SWAGGER_UI.iterdir()
        if path.name not in OURS
    }
    assert found == manifest["sha256"]
    assert {"package", "version", "licence"} <= manifest.keys()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_files_of_npm_packages_are_those_of_the_packages_with_their_licences(folder: Path) -> None:
    packages = json.loads((folder / "vendored.json").read_text())
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    del found["vendored.json"]
    assert found == {name: digest for package in packages for name, digest in package["sha256"].items()}
    for package in packages:
        assert {"package", "version", "licence"} <= package.keys()
        assert any("LICENSE" in name for name in package["sha256"]), package["package"]
