"""The program `kb`: the command, or how to install it."""

import sys
from typing import Final

_OF_EXTRA_CLI: Final = frozenset({"rich", "typer"})


def main() -> None:
    """Run one command; without the packages of the extra `cli`, say how to install them."""
    try:
        from kb_client.cli import (
            main as run,
        )  # the packages of the extra are missing where only the client is installed
    except ModuleNotFoundError as error:
        if error.name not in _OF_EXTRA_CLI:
            raise
        print(f"error: the package {error.name} is not installed", file=sys.stderr)
        print("  remedy: pip install 'kb-client[cli]'", file=sys.stderr)
        sys.exit(1)
    run()
