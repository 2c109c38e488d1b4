"""Finds the stack that a command means, from any folder: each supervisor keeps a file about itself for its user."""

import contextlib
import os
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil
from pydantic import BaseModel, ValidationError

from kb_local.errors import SeveralStacks
from kb_local.state import DEFAULT_FOLDER, Home, find_process, home_of, write_private

_FOLDER: Final = Path("kb/stacks")


class RunningStack(BaseModel):
    """A supervisor as it registers itself. The key stays in the folder of the stack."""

    folder: Path
    machine: str
    """Name of the host: several may share the folders of their users."""
    supervisor_pid: int
    supervisor_started_at: float

    @property
    def supervisor(self) -> psutil.Process | None:
        """Return its process; None once that has ended."""
        return find_process(self.supervisor_pid, self.supervisor_started_at)


@contextlib.contextmanager
def registered(home: Home, environment: Mapping[str, str]) -> Iterator[None]:
    """Let commands of this user find the stack of this process.

    Raises:
        OSError: the file cannot be written.
    """
    process = psutil.Process()
    own = RunningStack(
        folder=home.folder,
        machine=platform.node(),
        supervisor_pid=process.pid,
        supervisor_started_at=process.create_time(),
    )
    folder = _registry(environment)
    if folder is None:
        yield
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Its name is of one run: who removes the file of a run that crashed can't remove that of the next one.
    path = folder / f"{own.supervisor_pid}-{own.supervisor_started_at:.2f}.json"
    write_private(path, own.model_dump_json())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_stacks(environment: Mapping[str, str]) -> Sequence[RunningStack]:
    """Return the stacks of this user that run on this machine, by folder; files of others that crashed are removed."""
    folder = _registry(environment)
    found = []
    for path in sorted(folder.glob("*.json")) if folder is not None and _is_own(folder) else ():
        try:
            stack = RunningStack.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue
        if stack.machine != platform.node():
            continue
        if stack.supervisor is not None:
            found.append(stack)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return sorted(found, key=lambda each: each.folder)


def find_home(environment: Mapping[str, str]) -> Home:
    """Return the folder that `KB_HOME` names, else that of this folder or one above it, else of the one that runs.

    Raises:
        SeveralStacks: several run, none of them here.
        UnusableHome: there is none, and the current folder was deleted.
    """
    if environment.get("KB_HOME"):
        return home_of(environment)
    if (here := nearest_home()) is not None:
        return here
    running = running_stacks(environment)
    if len(running) > 1:
        raise SeveralStacks([each.folder for each in running])
    return Home(running[0].folder) if running else home_of(environment)


def nearest_home() -> Home | None:
    """Return the home in the current folder, or else in the nearest one above it, if that one is this user's."""
    try:
        current = Path.cwd()
    except FileNotFoundError:
        return None
    for each in (current, *current.parents):
        home = Home(each / DEFAULT_FOLDER)
        # A user who writes to /tmp must not receive what others push.
        if os.path.isdir(home.folder) and (each == current or _is_own(home.folder)):  # noqa: PTH112  # raises nothing
            return home
    return None


def describe_others(home: Home, environment: Mapping[str, str]) -> str | None:
    """Return a sentence that says where other stacks of this user run; None if none does."""
    others = [each.folder for each in running_stacks(environment) if each.folder != home.folder]
    if not others:
        return None
    verb = "a stack runs" if len(others) == 1 else "stacks run"
    return f"{verb} in {', '.join(map(str, others))}; for that one: export KB_HOME={shlex.quote(str(others[0]))}"


def _registry(environment: Mapping[str, str]) -> Path | None:
    given = Path(environment.get("XDG_STATE_HOME") or "")
    # A relative one is not valid (XDG base directory specification).
    if given.is_absolute():
        return given / _FOLDER
    try:
        home = Path(environment.get("HOME") or Path.home())
    except RuntimeError:
        return None
    return home / ".local/state" / _FOLDER


def _is_own(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False
