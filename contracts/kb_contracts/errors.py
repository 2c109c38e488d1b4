"""The error of a message that can't be used."""


class Rejected(Exception):
    """A message that no consumer can use; it goes to the dead letters with `reason`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        """Slug, such as `not-json`."""
        self.detail = detail
        """Sentence that describes the error without quoting a text."""
