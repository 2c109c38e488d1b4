"""Finds the stack that `kb up` runs, so that commands need no setting."""

import os
from pathlib import Path

from kb_local.state import DEFAULT_FOLDER, Home, home_of


def find_local_stack() -> dict[str, str] | None:
    """Return address, organization and key of the stack in `KB_HOME`, or in `.kb` of this folder or one above it."""
    home = home_of(os.environ) if os.environ.get("KB_HOME") else _nearest_home(Path.cwd())
    if home is None or not home.is_locked():
        return None
    state = home.read_state()
    if state.base_url is None:
        return None
    secrets = home.read_secrets()
    return {"base_url": state.base_url, "organization": secrets.organization_id, "api_key": secrets.api_key}


def _nearest_home(folder: Path) -> Home | None:
    for each in (folder, *folder.parents):
        home = Home(each / DEFAULT_FOLDER)
        if home.folder.is_dir():
            return home
    return None
