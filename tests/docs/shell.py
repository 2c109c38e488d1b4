"""Runs the commands of a page in one bash, one after the other, as a reader does."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import Final

from tests.docs.commands import DocumentedCommand
from tests.waiting import until

COMMAND_WITHIN_S: Final = 90.0
# An answer other than 2xx fails its command.
CURL_SETTINGS: Final = "silent\nshow-error\nfail-with-body\n"
_KEPT: Final = ("LANG", "LC_ALL", "TMPDIR")


class CommandFailed(AssertionError):
    """A command of a page did not do what the page says."""


async def run_page(
    page: str,
    commands: Sequence[DocumentedCommand],
    *,
    folder: Path,
    variables: Mapping[str, str],
    returned: Sequence[str] = (),
    within_s: float = COMMAND_WITHIN_S,
) -> dict[str, str]:
    """Run all commands, compare what they print, and return the values of the variables named by `returned`.

    Raises:
        CommandFailed: names the page, the line, the command and what it printed.
    """
    (folder / ".curlrc").write_text(CURL_SETTINGS)
    (folder / "at").write_text("0")
    (folder / "script").write_text(_script(folder, commands, returned))
    environment = {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "NO_PROXY": "*",
        **variables,
    }
    shell = await asyncio.create_subprocess_exec(
        "bash",
        "--noprofile",
        "--norc",
        str(folder / "script"),
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await until(lambda: shell.returncode is not None, within_s=within_s, progress=(folder / "at").read_text)
        status = shell.returncode
    except TimeoutError:
        os.killpg(shell.pid, signal.SIGKILL)
        await shell.wait()
        status = None
    if status != 0:
        at = int((folder / "at").read_text())
        how = f"did not end within {within_s:g} s" if status is None else f"ended with status {status}"
        raise _failed(page, commands[at], how, folder, at)
    for at, command in enumerate(commands):
        _check_output(page, command, folder, at)
    return {name: (folder / f"value-{name}").read_text() for name in returned}


def _script(folder: Path, commands: Sequence[DocumentedCommand], returned: Sequence[str]) -> str:
    lines = ["set -u -o pipefail"]
    for at, command in enumerate(commands):
        (folder / f"command-{at}").write_text(command.text)
        lines.append(f"echo {at} > at")
        lines.append(f'eval "$(cat command-{at})" > output-{at} 2> errors-{at} || exit')
    lines += [f'printf %s "${name}" > value-{name}' for name in returned]
    return "\n".join(lines) + "\n"


def _check_output(page: str, command: DocumentedCommand, folder: Path, at: int) -> None:
    printed = (folder / f"output-{at}").read_text()
    if command.output and not OutputChecker().check_output(
        command.output + "\n", printed, ELLIPSIS | NORMALIZE_WHITESPACE
    ):
        raise _failed(page, command, f"should print\n{command.output}", folder, at)


def _failed(page: str, command: DocumentedCommand, how: str, folder: Path, at: int) -> CommandFailed:
    printed = "".join(
        (folder / name).read_text() for name in (f"output-{at}", f"errors-{at}") if (folder / name).exists()
    )
    return CommandFailed(f"{page}:{command.line}: {command.text}\n{how}\nit printed\n{printed}")
