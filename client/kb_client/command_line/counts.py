"""Numbers of things, as commands say them."""


def count_documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count:,} documents"


def count_passages(count: int) -> str:
    return "1 passage" if count == 1 else f"{count:,} passages"


def describe_seconds(seconds: float) -> str:
    """Say how long something takes, no more exactly than an estimate is."""
    if seconds < 55:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    if seconds < 5_400:
        return f"about {max(1, round(seconds / 60))} min"
    return f"about {seconds / 3_600:.1f} h"
