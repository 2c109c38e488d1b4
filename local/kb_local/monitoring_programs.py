"""The programs of Prometheus and Alertmanager: on the PATH, or where `make prometheus` installs them."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, Literal

from kb_local.errors import UnusableServer

CHECKOUT: Final = Path(__file__).resolve().parents[2]
INSTALLED: Final = CHECKOUT / ".observability" / "usr" / "bin"

MonitoringProgram = Literal["prometheus", "promtool", "alertmanager", "amtool"]
# Debian's package has renamed one.
_FILES: Final[dict[MonitoringProgram, tuple[str, ...]]] = {
    "prometheus": ("prometheus",),
    "promtool": ("promtool",),
    "alertmanager": ("alertmanager", "prometheus-alertmanager"),
    "amtool": ("amtool",),
}
REMEDY: Final = (
    "put prometheus, promtool, alertmanager and amtool from https://prometheus.io/download/ on the PATH; in a checkout,"
    " `make prometheus` installs Debian's packages into .observability/ without root"
)


def monitoring_program(name: MonitoringProgram) -> Path:
    """Return the program to run: the one on the PATH, else the installed one.

    Raises:
        UnusableServer: there is none.
    """
    search_path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(INSTALLED)])
    for file in _FILES[name]:
        if found := shutil.which(file, path=search_path):
            return Path(found)
    raise UnusableServer(f"{name} is not installed", remedy=REMEDY)


def files_of(program: Path) -> Path:
    """Return the folder in which a program has to run: an installed one finds its templates and pages from there."""
    return program.parent.parent


def version_of_program(name: MonitoringProgram) -> str:
    """Return the version that a program prints about itself.

    Raises:
        UnusableServer: there is no such program, or it can't be run on this machine.
    """
    program = monitoring_program(name)
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
        return (answer.stdout or answer.stderr).split(maxsplit=3)[2]
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        raise UnusableServer(f"{program} cannot be run", remedy=REMEDY) from error
