import sys

import typer

from kb_client.command_line.unusable_request import UnusableRequest


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is deleted, unless `yes` was passed.

    Raises:
        UnusableRequest: there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UnusableRequest(f"{question} There is no terminal to ask on: pass --yes")
    typer.confirm(question, abort=True, err=True)
