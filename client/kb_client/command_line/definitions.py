"""Reads what a prompt or an agent is to be from options and files."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.marked_text import decode_marked

StoredModelOption = Annotated[str | None, typer.Option("--model", metavar="MODEL", help="Chat model.")]
AutoSearchOption = Annotated[
    bool | None,
    typer.Option("--auto-search/--no-auto-search", help="Search with the question before the model speaks."),
]

STANDARD_INPUT: Final = Path("-")
_EDITOR: Final = "vi"


def read_definition(path: Path | None, *, fields: Collection[str], ignored: Collection[str]) -> dict[str, Any]:
    """Return the fields of a JSON file, such as `kb agents show --json` prints; without a file, none.

    Args:
        path: file, or `-` for the standard input.
        fields: that a file may have.
        ignored: fields that the server sets.

    Raises:
        UnusableRequest: the file can't be read, or has other fields.
    """
    if path is None:
        return {}
    try:
        content = json.loads(read_text(path))
    except ValueError as error:
        raise UnusableRequest(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise UnusableRequest(f"{path} should contain one JSON object")
    if unknown := content.keys() - set(fields) - set(ignored):
        raise UnusableRequest(
            f"{path} has unknown fields: {', '.join(sorted(unknown))}; there are: {', '.join(sorted(fields))}"
        )
    return {name: value for name, value in content.items() if name in fields}


def read_text(path: Path) -> str:
    """Return the text of a file, or of the standard input for `-`, in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
        UnusableRequest: it can't be read.
    """
    try:
        if path == STANDARD_INPUT:
            return sys.stdin.read().removeprefix("\ufeff")
        return decode_marked(path.read_bytes())
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8; save it as UTF-8"
        raise UnusableRequest(f"{path} can't be read: {reason}") from None


def edit_text(text: str) -> str:
    """Let the person change a text in the editor of `VISUAL` or `EDITOR`, and return what was saved.

    Raises:
        UnusableRequest: there is no terminal, the editor can't be started, or it failed.
    """
    if not sys.stdin.isatty():
        raise UnusableRequest("say what to change; there is no terminal for an editor")
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR
    with tempfile.TemporaryDirectory(prefix="kb-") as folder:
        path = Path(folder) / "text.md"
        path.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)  # noqa: S603  # the person's own editor
        except (OSError, subprocess.CalledProcessError) as error:
            raise UnusableRequest(f"the editor {editor!r} failed, so nothing was changed: {error}") from None
        return read_text(path)
