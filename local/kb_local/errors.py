from collections.abc import Sequence


class LocalStackError(Exception):
    """A failure on this machine, with what its user can do about it.

    `LocalStackError`
    ├── `ServerDied`: a server ended before it was ready
    ├── `ServerNotReady`: it runs, but did not become ready in time
    ├── `UnusableServer`: the binary or deployment that was named cannot do the job
    ├── `UnusableModelFile`: a file of an embedding model is missing or not the one it should be
    ├── `UnusableHome`: the data folder is of a newer version or of another user, or another stack has it
    ├── `UnusablePort`: somebody else listens there, or it is no port
    ├── `UnknownService`: `KB_LOCAL_SERVICES` names what cannot be launched
    ├── `UnfitMachine`: checks of `kb doctor` failed without which nothing can be started
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
    """The binary or the deployment that was named cannot do the job."""


class UnusableModelFile(LocalStackError):
    """A file of an embedding model is missing or not the one it should be."""


class UnusableHome(LocalStackError):
    """The data folder is of a newer version, or another stack has it."""


class UnusablePort(LocalStackError):
    """Somebody else listens on a port that was asked for, or it is no port."""


class UnknownService(LocalStackError):
    """`KB_LOCAL_SERVICES` names what cannot be launched."""


class UnfitMachine(LocalStackError):
    """Checks failed without which nothing can be started; the text has each with its remedy."""

    def __init__(self, failed: Sequence[tuple[str, str]]) -> None:
        """Take what was found and its remedy, of each check that failed."""
        super().__init__("; ".join(found for found, _ in failed), remedy="`kb doctor` shows all checks")
        self._failed = tuple(failed)

    def __str__(self) -> str:
        return "\nerror: ".join(f"{found}\n  remedy: {remedy}" for found, remedy in self._failed)


class Interrupted(LocalStackError):
    """Ctrl-C ended the command; the text says what still runs."""
