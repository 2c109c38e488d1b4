"""Starts, finds and stops the supervisor of a folder, which runs in the background."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import psutil

from kb_local.errors import LocalStackError, ServerDied
from kb_local.state import Home, StackState, find_process, home_of

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.1


def start(environment: Mapping[str, str], *, on_change: Callable[[StackState], None]) -> None:
    """Start the stack in the background unless it runs already; return once it is ready.

    Raises:
        LocalStackError: it cannot be started.
    """
    home = home_of(environment)
    home.prepare()
    supervisor = None if home.is_locked() else _launch(home, environment)
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        state = home.read_state()
        is_its_own = supervisor is None or state.supervisor_pid == supervisor.pid
        if is_its_own:
            on_change(state)
            if state.phase == "ready":
                return
        if supervisor is not None and supervisor.poll() is not None:
            raise _failure(home, supervisor)
        if supervisor is None and not home.is_locked():
            raise ServerDied("the stack that was starting has stopped", remedy="start it again with `kb up`")
        time.sleep(POLL_INTERVAL_S)
    raise ServerDied(
        f"the stack was not ready after {START_TIMEOUT_S:.0f} s", remedy="see `kb status` and the logs it names"
    )


def run_here(environment: Mapping[str, str], *, on_change: Callable[[StackState], None]) -> None:
    """Run the stack in this process until Ctrl-C or SIGTERM.

    Raises:
        LocalStackError: it runs already, or cannot be started.
    """
    # Here, since it brings all clients along: whoever only looks need not wait for them.
    from kb_local.supervisor import supervise

    asyncio.run(supervise(environment, on_change=on_change))


def stop(environment: Mapping[str, str]) -> bool:
    """Stop the stack and wait until nothing of it is left; return whether it ran.

    Raises:
        LocalStackError: it runs, but its supervisor cannot be found.
    """
    home = home_of(environment)
    if not home.is_locked():
        return False
    state = home.read_state()
    supervisor = find_process(state.supervisor_pid, state.supervisor_started_at)
    if supervisor is None:
        raise LocalStackError(
            f"a process holds {home.folder}, and it is not the one that was recorded",
            remedy=f"find it with `fuser {home.folder}/lock` and end it",
        )
    supervisor.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs([supervisor], timeout=STOP_TIMEOUT_S)
    # Its processes go with it.
    for process in alive:
        process.kill()
        process.wait()
    return True


def current_state(environment: Mapping[str, str]) -> StackState:
    """Return how things stand now, also when the supervisor was killed before it could say so."""
    home = home_of(environment)
    state = home.read_state()
    if home.is_locked() or state.phase == "failed":
        return state
    stopped = [each.model_copy(update={"pid": None, "condition": "stopped"}) for each in state.processes]
    return state.model_copy(update={"phase": "stopped", "base_url": None, "processes": stopped})


def is_healthy(state: StackState) -> bool:
    return state.phase == "ready" and all(process.condition == "ready" for process in state.processes)


def _launch(home: Home, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    with home.log("supervisor").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "kb_local.supervisor"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**environment, "KB_HOME": str(home.folder)},
            cwd=os.sep,
            # It outlives this command and its terminal.
            start_new_session=True,
        )


def _failure(home: Home, supervisor: "subprocess.Popen[bytes]") -> LocalStackError:
    state = home.read_state()
    if state.failure is not None and state.supervisor_pid == supervisor.pid:
        return LocalStackError(state.failure.problem, remedy=state.failure.remedy)
    return ServerDied("the supervisor ended", remedy=f"read {home.log('supervisor')}, and run `kb doctor`")
