"""Run a command that dies with the process that started it.

`python -I -S tether.py PARENT_PID COMMAND...` asks the kernel for a SIGKILL at the parent's death and then becomes
COMMAND. A small program instead of `preexec_fn`, which runs Python between fork and exec and is unsafe as soon as the
parent has a thread. Only Linux has the call; elsewhere `kb up` ends what an earlier one left behind.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def die_with(parent_pid: int) -> None:
    """Have this process killed when `parent_pid`, its parent, ends (Linux only)."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the call above; then nobody would ever send the signal.
    if os.getppid() != parent_pid:
        sys.exit(f"the parent {parent_pid} is gone")


def rename(name: str) -> None:
    """Show this process as `name` in `top`, cut to 15 characters (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def main() -> None:
    die_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # no shell is the point


if __name__ == "__main__":
    main()
