class LocalStackError(Exception):
    """What went wrong on this machine, and what its user can do about it.

    `LocalStackError`
    ├── `ServerDied`: a server ended before it was ready
    ├── `ServerNotReady`: it runs, but did not become ready in time
    ├── `UnusableServer`: the binary or deployment that was named cannot do the job
    ├── `UnusableModelFile`: a file of an embedding model is missing or not the one it should be
    ├── `UnusableHome`: the data folder is of a newer version, or another stack has it
    └── `UnusablePort`: somebody else listens there
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
    """Somebody else listens on a port that was asked for."""
