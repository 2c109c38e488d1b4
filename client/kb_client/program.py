"""The program `kb`: the command, names for a shell, or how to install the command."""

import sys
from typing import Final

ASK_FOR_NAMES: Final = "__complete"
"""First argument when a shell asks for names. It is no command: to make all commands would take too long."""
_OF_EXTRA_CLI: Final = frozenset({"rich", "typer"})


def main() -> None:
    """Run one command; without the packages of the extra `cli`, say how to install them."""
    try:
        # The packages of the extra are missing where only the client is installed.
        if sys.argv[1:2] == [ASK_FOR_NAMES]:
            from kb_client.command_line.completion.names import print_names

            print_names(sys.argv[2:])
            return
        from kb_client.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in _OF_EXTRA_CLI:
            raise
        print(f"error: the package {error.name} is not installed", file=sys.stderr)
        print("  remedy: it comes with the extra cli of kb-client, or `make install`", file=sys.stderr)
        sys.exit(1)
    run()
