import shlex
from collections.abc import Sequence
from pathlib import Path


class LocalStackError(Exception):
    """A failure of the local stack, with a remedy for its user.

    `LocalStackError`
    ├── `ServerDied`: a server ended before it was ready
    ├── `ServerNotReady`: it runs, but did not become ready in time
    ├── `UnusableServer`: the binary or deployment that was named cannot be used
    ├── `UnusableModelFile`: a file of an embedding model is missing or has another checksum
    ├── `UnusableHome`: the data folder is of a newer version or of another user, or another stack has it
    ├── `SeveralStacks`: several stacks run, and none of them in this folder
    ├── `UnusablePort`: another process listens there, or it is not a port
    ├── `UnknownService`: `KB_LOCAL_SERVICES` names a service that cannot be started
    ├── `UnfitMachine`: required checks of `kb doctor` failed
    └── `Interrupted`: Ctrl-C ended the command
    """

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n  remedy: {self.remedy}"


class ServerDied(LocalStackError):
    """A server ended before it was ready."""


class ServerNotReady(LocalStackError):
    """A server runs but did not become ready in time."""


class UnusableServer(LocalStackError):
    """The binary or the deployment that was named cannot be used."""


class UnusableModelFile(LocalStackError):
    """A file of an embedding model is missing or has another checksum."""


class UnusableHome(LocalStackError):
    """The data folder is of a newer version, or another stack has it."""


class SeveralStacks(LocalStackError):
    """Several stacks run, and none of them in this folder."""

    def __init__(self, folders: Sequence[Path]) -> None:
        lines = "".join(f"\n  {folder}" for folder in folders)
        super().__init__(
            f"{len(folders)} stacks run, and none of them in this folder:{lines}",
            remedy=f"choose one: export KB_HOME={shlex.quote(str(folders[0]))}",
        )


class UnusablePort(LocalStackError):
    """Another process listens on the requested port, or it is not a port."""


class UnknownService(LocalStackError):
    """`KB_LOCAL_SERVICES` names a service that cannot be started."""


class UnfitMachine(LocalStackError):
    """Required checks of `kb doctor` failed; the text has each one with its remedy."""

    def __init__(self, failed: Sequence[tuple[str, str]]) -> None:
        """Take the finding and the remedy of each failed check."""
        super().__init__("; ".join(found for found, _ in failed), remedy="`kb doctor` shows all checks")
        self._failed = tuple(failed)

    def __str__(self) -> str:
        return "\nerror: ".join(f"{found}\n  remedy: {remedy}" for found, remedy in self._failed)


class Interrupted(LocalStackError):
    """Ctrl-C ended the command; the text says what still runs."""
