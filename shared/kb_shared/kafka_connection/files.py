"""Reads the files that hold credentials. Their contents never reach an error or a log."""

from pathlib import Path


class UnusableFile(OSError):
    """A file of the Kafka connection can't be read or used; `str()` names it and never quotes it.

    An OSError, because the client library takes one for a connection that could not be opened, and tries again.
    """


def read_secret(path: Path) -> str:
    """Return the text of a file without the line breaks at its end.

    Raises:
        UnusableFile: it can't be read, is not UTF-8, or is empty.
    """
    try:
        content = path.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise UnusableFile(f"{path} can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UnusableFile(f"{path} is not UTF-8 text") from None
    if not content:
        raise UnusableFile(f"{path} is empty")
    return content
