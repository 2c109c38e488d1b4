"""Environments into which wheels are installed, and programs that run in them without the repository."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PYTHON: Final = os.environ.get("KB_TEST_PYTHON", sys.executable)
"""Interpreter of the environments."""
INSTALL_WITHIN_S: Final = 900
RUN_WITHIN_S: Final = 240


class UserEnvironment:
    """A new environment with a folder in which its user works: nothing of the repository can be found from there."""

    def __init__(self, folder: Path) -> None:
        self._venv = folder / "venv"
        self._bin = self._venv / "bin"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        _run(
            [PYTHON, "-m", "venv", str(self._venv)],
            folder=folder,
            environment=_of_pip(),
            within_s=INSTALL_WITHIN_S,
        )

    def install(self, *requirements: str) -> None:
        """Install with pip, which takes the packages of others from the index that this machine is set to."""
        pip = [self._bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*map(str, pip), *requirements], folder=self.work, environment=_of_pip(), within_s=INSTALL_WITHIN_S)
        _run([str(self._bin / "python"), "-m", "pip", "check"], folder=self.work, environment=_of_pip())

    def remove(self) -> None:
        """Delete what was installed, a gigabyte or more; the logs of the user's programs stay."""
        shutil.rmtree(self._venv)

    def run(self, program: str, *arguments: str, status: int = 0) -> str:
        """Run a program of the environment with no other setting than its state folder; return what it printed.

        Raises:
            AssertionError: it ended with another exit status; contains what it printed.
        """
        environment = {
            "PATH": f"{self._bin}:/usr/bin:/bin",
            "HOME": str(self.work),
            "KB_HOME": str(self.work / "state"),
            "NO_PROXY": "*",
        }
        return _run([str(self._bin / program), *arguments], folder=self.work, environment=environment, status=status)


def _of_pip() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def _run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    within_s: float = RUN_WITHIN_S,
    status: int = 0,
) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=within_s, check=False
    )
    assert done.returncode == status, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout if status == 0 else done.stderr
