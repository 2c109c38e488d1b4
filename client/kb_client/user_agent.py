"""The `User-Agent` of the client's requests."""

import functools
import platform
from importlib.metadata import version


@functools.cache
def user_agent() -> str:
    """Return the name and version of the client, which are read from the installed package once."""
    return f"kb-client/{version('kb-client')} Python/{platform.python_version()}"
