"""Names the extra of the package that has to be installed when an import fails."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Import in this block what the extra of `kb-client` brings.

    Raises:
        ImportError: the extra is not installed. The message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise ImportError(
            f"the package {package} is not installed: it comes with the extra {extra} of kb-client, or `make install`",
            name=error.name,
        ) from error
