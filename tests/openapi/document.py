"""The OpenAPI document of all services, built from their routes, and the files that hold it."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from kb_api import bootstrap as kb_api
from kb_knowledge import bootstrap as kb_knowledge
from kb_search import bootstrap as kb_search
from kb_shared.http import openapi

ROOT: Final = Path(__file__).parents[2]
PACKAGED: Final = ROOT / "contracts/kb_contracts/openapi.json"
"""Document that services serve. `docs/openapi.json` is a link to it."""
RELEASED: Final = ROOT / "docs/openapi.released.json"
"""Document of the last release, with which changes must be compatible."""


def build() -> dict[str, Any]:
    """Build the document of this code."""
    return openapi.build([*kb_api.ROUTERS, *kb_search.ROUTERS, *kb_knowledge.ROUTERS], version=version("kb-contracts"))


def render(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
