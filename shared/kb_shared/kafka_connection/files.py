"""Reads the files that hold credentials. Their contents never reach an error or a log."""

from pathlib import Path


class UnusableFile(OSError):
    """File of the Kafka connection that can't be read or used. `str()` names it and never quotes it.

    It is an OSError, which the client library treats as a failed connection and retries.
    """


def read_secret(path: Path) -> str:
    """Return the text of a file without the line breaks at its end.

    Raises:
        UnusableFile: the file can't be read, is not UTF-8, or is empty.
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
