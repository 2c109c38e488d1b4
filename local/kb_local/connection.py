"""Finds the stack that `kb up` runs, so that commands need no setting."""

import os
import sys

from kb_client.errors import UnusableConfiguration
from kb_local.errors import LocalStackError
from kb_local.running_stacks import describe_others, find_home, nearest_home
from kb_local.state import Home


def find_local_stack() -> dict[str, str] | None:
    """Return address, organization and key of the stack that a command means; None if none runs.

    Raises:
        UnusableConfiguration: several run, it is starting, or the one of this folder does not run but others do.
    """
    try:
        home = find_home(os.environ)
        found = _connection(home)
        others = describe_others(home, os.environ) if found is None else None
    except LocalStackError as error:
        raise UnusableConfiguration(str(error)) from error
    if others is not None:
        raise UnusableConfiguration(f"the stack of {home.folder} does not run. `kb up` starts it; {others}")
    if found is not None and not os.environ.get("KB_HOME") and nearest_home() is None:
        print(f"using the stack in {home.folder}", file=sys.stderr)
    return found


def _connection(home: Home) -> dict[str, str] | None:
    if not home.is_locked():
        return None
    state = home.read_state()
    if state.base_url is None:
        raise LocalStackError(
            f"the stack in {home.folder} is {state.phase}", remedy="`kb status` shows its processes; `kb up` waits"
        )
    secrets = home.read_secrets()
    return {"base_url": state.base_url, "organization": secrets.organization_id, "api_key": secrets.api_key}
