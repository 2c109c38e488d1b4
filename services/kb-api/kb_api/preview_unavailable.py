"""The error of a preview that did not get the processor time that it needs."""

from typing import Final

from kb_shared.errors import RequestError

_RETRY_AFTER_S: Final = 2.0


class PreviewUnavailable(RequestError):
    """Preview that has no result in time. Nothing is wrong with the database or the provider."""

    def __init__(self, why: str) -> None:
        """Construct it; `why` is the beginning of its detail."""
        super().__init__(
            503,
            "preview-unavailable",
            f"{why}. Try again in {_RETRY_AFTER_S:g} s, with a shorter text or fewer tags if it fails again.",
            retry_after_s=_RETRY_AFTER_S,
        )
