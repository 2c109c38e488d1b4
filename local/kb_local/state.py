"""The folder of a stack (`.kb` by default): data, logs, secrets, and the state that `kb status` reads."""

import base64
import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Literal

import psutil
from pydantic import BaseModel, Field, ValidationError

from kb_local.errors import UnusableHome

FORMAT = 1
DEFAULT_FOLDER = ".kb"

StackPhase = Literal["starting", "ready", "stopping", "stopped", "failed"]
ProcessCondition = Literal["starting", "ready", "not ready", "crashed", "stopped"]


class ProcessState(BaseModel):
    name: str
    pid: int | None
    started_at: float | None = None
    """Creation time of the process by the system's clock: a pid alone may have been reused since."""
    port: int
    condition: ProcessCondition
    restarts: int
    last_exit: str | None = None
    log: str


class StackProblem(BaseModel):
    problem: str
    remedy: str


class StackState(BaseModel):
    """State of the supervisor and its processes, as last written."""

    phase: StackPhase = "stopped"
    supervisor_pid: int | None = None
    supervisor_started_at: float | None = None
    base_url: str | None = None
    prometheus_url: str | None = None
    """None without `kb up --observe`; so is the next one."""
    alertmanager_url: str | None = None
    ports: dict[str, int] = Field(default_factory=dict)
    processes: list[ProcessState] = Field(default_factory=list)
    failure: StackProblem | None = None


class Secrets(BaseModel):
    """Secrets created at the first start. They are kept because stored rows depend on them."""

    organization_id: str = "local"
    api_key: str = Field(default_factory=lambda: f"kb_{secrets.token_hex(6)}_{secrets.token_hex(24)}", repr=False)
    api_key_pepper: str = Field(default_factory=lambda: secrets.token_hex(32), repr=False)
    console_secret: str = Field(default_factory=lambda: secrets.token_hex(32), repr=False)
    provider_keys: str = Field(
        default_factory=lambda: f"local:{base64.b64encode(secrets.token_bytes(32)).decode()}", repr=False
    )


class Home:
    """The folder of one stack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.mongo = folder / "mongo"
        self._format = folder / "format"
        self._lock = folder / "lock"
        self._state = folder / "state.json"
        self._secrets = folder / "secrets.json"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def prepare(self) -> None:
        """Create the folder, or check that it can be used.

        Raises:
            UnusableHome: it was made by a newer version, cannot be written, or is another user's.
        """
        try:
            with self._permitted():
                # The database has the texts of the documents.
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.logs.mkdir(exist_ok=True)
                if not self._format.exists():
                    self._format.write_text(f"{FORMAT}\n")
        except OSError as error:
            raise UnusableHome(
                f"{self.folder} cannot be written: {error.strerror}", remedy="choose another folder with KB_HOME"
            ) from error
        self.check_usable()

    def check_usable(self) -> None:
        """Check that this version understands the folder, if there is one, and that this user may write into it.

        Raises:
            UnusableHome: it was made by a newer version, or is another user's.
        """
        try:
            with self._permitted():
                if self.folder.exists() and not os.access(self.folder, os.W_OK, effective_ids=True):
                    raise PermissionError
                found = self._format.read_text().strip()
        except (FileNotFoundError, NotADirectoryError):
            return
        if not found.isdecimal() or int(found) > FORMAT:
            raise UnusableHome(
                f"{self.folder} has the format {found!r}; this version knows up to {FORMAT}",
                remedy="use the version that created it, or another folder with KB_HOME",
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[Callable[[], bool]]:
        """Become the only supervisor of this folder; the lock ends with the process.

        Yields a function that says whether the folder is still there: another one of the same path is not.

        Raises:
            UnusableHome: another one runs.
        """
        with self._permitted():
            file = self._lock.open("a")
        with file:
            if not _takes_lock(file):
                raise UnusableHome(
                    f"a stack is already running in {self.folder}",
                    remedy="`kb down` stops it, `kb status` shows its processes",
                )
            yield lambda: self._is_at_its_path(file)

    def _is_at_its_path(self, lock: IO[str]) -> bool:
        try:
            return os.path.samestat(self._lock.stat(), os.fstat(lock.fileno()))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # Of a file system that does not answer nothing is known.
            return True

    def is_locked(self) -> bool:
        """Say whether a supervisor runs.

        Raises:
            UnusableHome: the folder is another user's.
        """
        try:
            with self._permitted(), self._lock.open("r+") as file:
                return not _takes_lock(file)
        except (FileNotFoundError, NotADirectoryError):
            return False

    @contextlib.contextmanager
    def _permitted(self) -> Iterator[None]:
        """Turn a PermissionError into an error that names the owner of the folder."""
        try:
            yield
        except PermissionError as error:
            raise UnusableHome(
                f"{self.folder} cannot be used by this user{self._owner_in_words()}",
                remedy="run `kb` as the owner of the folder, or choose another one with KB_HOME",
            ) from error

    def _owner_in_words(self) -> str:
        try:
            return f": it belongs to {self.folder.owner()}"
        except (OSError, KeyError):
            return ""

    def read_state(self) -> StackState:
        """Return the last written state; an empty one before the first start.

        Raises:
            UnusableHome: it is not understood, or is another user's.
        """
        try:
            with self._permitted():
                written = self._state.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return StackState()
        try:
            return StackState.model_validate_json(written)
        except ValidationError as error:
            raise UnusableHome(
                f"{self._state} cannot be read", remedy=f"stop the stack and delete {self._state}; the data is kept"
            ) from error

    def write_state(self, state: StackState) -> None:
        """Replace the state atomically: readers never see a part of it."""
        write_private(self._state, state.model_dump_json(indent=1))

    def read_secrets(self) -> Secrets:
        """Return the secrets of this stack; a missing one is created."""
        kept = Secrets()
        with contextlib.suppress(FileNotFoundError), self._permitted():
            kept = Secrets.model_validate_json(self._secrets.read_bytes())
        if kept.model_fields_set != Secrets.model_fields.keys():
            write_private(self._secrets, kept.model_dump_json(indent=1))
        return kept


def home_of(environment: Mapping[str, str]) -> Home:
    """Return the folder that `KB_HOME` names, else `.kb` of the current directory.

    Raises:
        UnusableHome: the current directory was deleted.
    """
    try:
        return Home(Path(environment.get("KB_HOME") or DEFAULT_FOLDER).absolute())
    except FileNotFoundError:
        raise UnusableHome(
            "the current folder was deleted", remedy="go to another folder, or name one with KB_HOME"
        ) from None


def find_process(pid: int | None, started_at: float | None) -> psutil.Process | None:
    """Return the process that was recorded, unless it is gone and its pid is now another's."""
    if pid is None or started_at is None:
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started_at) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if same else None


def _takes_lock(file: IO[str]) -> bool:
    """Lock a file until it is closed; return False if another process has it locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only this user can read; a reader sees the old text or the new one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_text(text)
        draft.replace(path)
    except OSError:
        # On a full disk, the incomplete file would use up space.
        draft.unlink(missing_ok=True)
        raise
