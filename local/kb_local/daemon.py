"""Starts, finds and stops the supervisor of a folder, which runs in the background."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping

import psutil

from kb_local.child import describe_exit
from kb_local.errors import Interrupted, LocalStackError, ServerDied
from kb_local.log_file import open_log, rotate_log, tail
from kb_local.progress_deadline import ProgressDeadline
from kb_local.state import Home, StackState, find_process, home_of

STUCK_AFTER_S = 300.0
"""Time without progress of the supervisor after which a command gives up."""
POLL_INTERVAL_S = 0.1

OnChange = Callable[[StackState], None]


def start(environment: Mapping[str, str], *, on_change: OnChange) -> None:
    """Start the stack in the background unless it runs already; return once it is ready.

    Raises:
        LocalStackError: it cannot be started, or Ctrl-C came; then what was started here is stopped.
    """
    home = home_of(environment)
    home.prepare()
    supervisor: subprocess.Popen[bytes] | None = None
    try:
        if not home.is_locked():
            supervisor = _launch(home, environment)
        _wait_until_ready(home, supervisor, on_change=on_change)
    except KeyboardInterrupt:
        raise _stop_after_interrupt(home, supervisor, on_change=on_change) from None


def _wait_until_ready(home: Home, supervisor: "subprocess.Popen[bytes] | None", *, on_change: OnChange) -> None:
    """Wait for the supervisor that was launched, or for the one that runs already where it is None."""
    deadline = ProgressDeadline(STUCK_AFTER_S)
    while not deadline.is_over:
        state = home.read_state()
        if supervisor is None or state.supervisor_pid == supervisor.pid:
            on_change(state)
            if state.phase == "ready":
                return
        if supervisor is not None and supervisor.poll() is not None:
            raise _failure(home, supervisor)
        if supervisor is None and not home.is_locked():
            raise ServerDied("the stack stopped while it was starting", remedy="start it again with `kb up`")
        deadline.record(_observe_progress(state, supervisor.pid if supervisor is not None else state.supervisor_pid))
        time.sleep(POLL_INTERVAL_S)
    raise ServerDied(
        f"the supervisor has made no progress for {STUCK_AFTER_S:.0f} s",
        remedy="run `kb status` and read the logs that it lists",
    )


def _observe_progress(state: StackState, supervisor_pid: int | None) -> Hashable:
    """Return a value that changes while the supervisor makes progress: its state and its CPU time."""
    cpu_s = 0.0
    if supervisor_pid is not None:
        with contextlib.suppress(psutil.Error):
            spent = psutil.Process(supervisor_pid).cpu_times()
            cpu_s = spent.user + spent.system
    return hash(state.model_dump_json()), cpu_s


def _stop_after_interrupt(
    home: Home, supervisor: "subprocess.Popen[bytes] | None", *, on_change: OnChange
) -> Interrupted:
    """Stop the stack that this command has started, and return the error that says what still runs."""
    if supervisor is None:
        return Interrupted(
            f"interrupted; the stack in {home.folder} keeps running, because another command started it",
            remedy="`kb status` shows its processes, `kb down` stops it",
        )
    try:
        with contextlib.suppress(ProcessLookupError):
            supervisor.send_signal(signal.SIGTERM)
        while supervisor.poll() is None:
            on_change(home.read_state())
            time.sleep(POLL_INTERVAL_S)
    except KeyboardInterrupt:
        return Interrupted(
            f"interrupted; the stack in {home.folder} is still stopping", remedy="`kb status` shows what still runs"
        )
    return Interrupted(f"interrupted; the stack in {home.folder} was stopped", remedy="start it again with `kb up`")


def require_observed(home: Home) -> None:
    """Check that the stack that runs has a Prometheus: it may have been started by an earlier command.

    Raises:
        LocalStackError: it has none.
    """
    if home.read_state().prometheus_url is None:
        raise LocalStackError(
            f"the stack in {home.folder} runs without Prometheus, because it was started without --observe",
            remedy="`kb down`, then `kb up --observe`; the data is kept",
        )


def run_in_foreground(environment: Mapping[str, str], *, on_change: OnChange) -> None:
    """Run the stack in this process until Ctrl-C or SIGTERM.

    Raises:
        LocalStackError: it runs already, or cannot be started.
    """
    # Imported here, because it imports all clients; `kb status` should not wait for that.
    from kb_local.supervisor import supervise
    from kb_shared.observability import logs

    logs.configure("supervisor", "WARNING")
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
            f"{home.folder} is locked by a process that is not the recorded supervisor",
            remedy=f"find the process with `fuser {home.folder}/lock` and end it",
        )
    supervisor.send_signal(signal.SIGTERM)
    deadline = ProgressDeadline(STUCK_AFTER_S)
    while psutil.wait_procs([supervisor], timeout=POLL_INTERVAL_S)[1]:
        deadline.record(_observe_progress(home.read_state(), supervisor.pid))
        if deadline.is_over:
            # Its child processes end with it.
            supervisor.kill()
    return True


def current_state(environment: Mapping[str, str]) -> StackState:
    """Return the current state, also if the supervisor was killed before it could write it."""
    home = home_of(environment)
    state = home.read_state()
    if home.is_locked() or state.phase == "failed":
        return state
    stopped = [each.model_copy(update={"pid": None, "condition": "stopped"}) for each in state.processes]
    return state.model_copy(
        update={
            "phase": "stopped",
            "base_url": None,
            "prometheus_url": None,
            "alertmanager_url": None,
            "processes": stopped,
        }
    )


def is_healthy(state: StackState) -> bool:
    return state.phase == "ready" and all(process.condition == "ready" for process in state.processes)


def _launch(home: Home, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    log_file = home.log("supervisor")
    rotate_log(log_file)
    with open(open_log(log_file), "ab") as log:  # noqa: PTH123  # pathlib takes no descriptor
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
    log = home.log("supervisor")
    return ServerDied(
        f"the supervisor ended ({describe_exit(supervisor.returncode)}). The end of its log:\n{tail(log)}",
        remedy=f"read {log}, and run `kb doctor`",
    )
