import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kb_local import parent_death_signal
from kb_local.log_file import open_log

# One NumPy operation of ours is small; a pool of threads for each process only takes the cores from the others.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Child(Protocol):
    """A process that runs for us: one that was executed (`subprocess.Popen`) or forked (`zygote.ForkedChild`)."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while it runs. Never blocks."""

    def send_signal(self, signal_number: int, /) -> None:
        """Deliver a signal; does nothing once the process has ended."""


def execute(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    folder: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start `command` in `folder` with its output appended to `log`, tied to the life of this process.

    Call it from a thread that lives as long as the child shall: Linux counts the end of the thread as the parent's.
    It gets a process group of its own, so that Ctrl-C reaches only the supervisor, which stops all in order.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(open_log(log), "ab") as output:  # noqa: PTH123  # pathlib takes no descriptor
        return subprocess.Popen(
            [sys.executable, "-I", "-S", parent_death_signal.__file__, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=folder,
            process_group=0,
            pass_fds=pass_fds,
        )


def describe_exit(status: int) -> str:
    """Say in words how a process ended: `exit status 1`, `killed by SIGKILL`."""
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"
