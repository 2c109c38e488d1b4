"""Runs a command that is killed when its parent process ends (Linux: parent death signal).

`python -I -S parent_death_signal.py PARENT_PID COMMAND...` asks the kernel to send SIGKILL when the parent dies
(`PR_SET_PDEATHSIG`), and then replaces itself with COMMAND. It is a small program because `preexec_fn` would run
Python between fork and exec, which is unsafe when the parent has threads. Other systems have no such call: there,
`kb up` kills the processes that an earlier supervisor left behind.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def request_parent_death_signal(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent `parent_pid` ends (Linux only)."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # If the parent died before the call above, the signal is never sent.
    if os.getppid() != parent_pid:
        sys.exit(f"the parent {parent_pid} is gone")


def set_process_name(name: str) -> None:
    """Show this process as `name` in `top`, cut to 15 characters (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def main() -> None:
    request_parent_death_signal(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # no shell is the point


if __name__ == "__main__":
    main()
