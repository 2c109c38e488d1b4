"""The log files of a stack: appended to, and readable by their owner only."""

import os
from pathlib import Path

OWNER_ONLY = 0o600
MAX_LOG_BYTES = 50 * 1024 * 1024
TAIL_BYTES = 4000
TAIL_LINES = 12


def open_log(log: Path) -> int:
    """Return a descriptor that appends to `log`, which is made when absent; an existing file becomes private, too."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, OWNER_ONLY)
    os.fchmod(descriptor, OWNER_ONLY)
    return descriptor


def rotate_log(log: Path) -> None:
    """Rename a large log to `<name>.log.1`, replacing the previous one."""
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_name(log.name + ".1"))


def tail(log: Path) -> str:
    """Return the last lines that a process wrote."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    return "\n".join(lines[-TAIL_LINES:]) or "(it wrote nothing)"
