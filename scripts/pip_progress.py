"""Runs a pip command and shows its progress: `pip_progress.py REQUIREMENTS COMMAND...`; exits as the command does.

pip itself either says nothing or several lines for each package. Its output is shown when it fails.
"""

import re
import subprocess
import sys
from pathlib import Path

LOOKED_AT = re.compile(r"(?:Collecting|Requirement already satisfied:|Ignoring) ([A-Za-z0-9._-]+)")
INSTALLING = "Installing collected packages:"
WITHOUT_TERMINAL_EACH = 25


class PipProgress:
    """One line that is overwritten on a terminal; elsewhere a line after every 25 packages."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def read_line(self, line: str) -> None:
        """Process a line of pip's output."""
        if found := LOOKED_AT.match(line):
            self._done += 1
            if sys.stdout.isatty() or self._done % WITHOUT_TERMINAL_EACH == 0:
                self._show(f"  {self._done} of {self._total}: {found[1]}")
        elif line.startswith(INSTALLING):
            self._show(f"  fetched {self._done} of {self._total}, unpacking them ...")

    def end(self) -> None:
        """Clear the line of the terminal."""
        if sys.stdout.isatty():
            self._show("")

    def _show(self, text: str) -> None:
        if sys.stdout.isatty():
            sys.stdout.write(f"\r\x1b[K{text}")
        else:
            sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def main() -> int:
    requirements, command = Path(sys.argv[1]), sys.argv[2:]
    progress = PipProgress(len(re.findall(r"^[A-Za-z0-9._-]+==", requirements.read_text(), re.MULTILINE)))
    output: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:  # noqa: S603  # the Makefile's
        assert pip.stdout is not None
        for line in pip.stdout:
            output.append(line)
            progress.read_line(line)
    progress.end()
    if pip.returncode != 0:
        sys.stderr.write("".join(output))
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main())
