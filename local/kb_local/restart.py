"""Restarts one process of a running stack. The supervisor starts what has ended again."""

import signal
import time
from collections.abc import Mapping
from typing import Final

import psutil

from kb_local.daemon import POLL_INTERVAL_S, STUCK_AFTER_S
from kb_local.errors import LocalStackError, ServerNotReady
from kb_local.progress_deadline import ProgressDeadline
from kb_local.state import Home, ProcessState, find_process, home_of

STOPS_WITHIN_S: Final = 60.0


def restart(environment: Mapping[str, str], name: str, *, stops_within_s: float = STOPS_WITHIN_S) -> ProcessState:
    """End a process by SIGTERM, and wait until its successor is ready.

    A process that is frozen is woken, so that it can end. One that does not end in time is killed.

    Raises:
        LocalStackError: no stack runs, it has no such process, or the successor does not become ready.
    """
    home = home_of(environment)
    if not home.is_locked():
        raise LocalStackError(f"no stack is running in {home.folder}", remedy="start it with `kb up`")
    before = _find(home, name)
    if before is None:
        names = ", ".join(process.name for process in home.read_state().processes)
        raise LocalStackError(f"the stack has no process {name!r}", remedy=f"name one of {names}")
    if process := find_process(before.pid, before.started_at):
        _end(process, within_s=stops_within_s)
    return _wait_for_successor(home, before)


def _find(home: Home, name: str) -> ProcessState | None:
    return next((each for each in home.read_state().processes if each.name == name), None)


def _end(process: psutil.Process, *, within_s: float) -> None:
    try:
        process.send_signal(signal.SIGTERM)
        process.resume()
        process.wait(timeout=within_s)
    except psutil.TimeoutExpired:
        process.kill()
    except psutil.NoSuchProcess:
        return


def _wait_for_successor(home: Home, before: ProcessState) -> ProcessState:
    deadline = ProgressDeadline(STUCK_AFTER_S)
    while not deadline.is_over:
        now = _find(home, before.name)
        if now is not None and now.pid not in {None, before.pid} and now.condition == "ready":
            return now
        deadline.record(hash(home.read_state().model_dump_json()))
        time.sleep(POLL_INTERVAL_S)
    raise ServerNotReady(
        f"{before.name} was ended, and did not become ready again", remedy=f"read {before.log}, and run `kb status`"
    )
