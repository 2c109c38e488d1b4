"""Files of other projects are unchanged, and say where they come from."""

import hashlib
import json
from pathlib import Path
from typing import Final

SWAGGER_UI: Final = Path(__file__).parents[2] / "shared/kb_shared/http/swagger_ui"
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
