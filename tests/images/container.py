"""Runs an image's process as a container engine would: its user, read-only root, /tmp of its own, no privileges.

It shares the network of this machine, or has none. What an engine adds is not there: cgroups, a seccomp profile, a
process namespace.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kb_local.child import Child, execute
from kb_local.ports import LOOPBACK
from kb_local.python_server import answers_ok
from kb_local.server import Server

_ENTER: Final = """
set -e
root=$1
user=$2
shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o size=256m,mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
exec setpriv --no-new-privs chroot --userspec="$user" --groups="" "$root" "$@"
"""


class Container(Server):
    """A service in its image; `port` replaces the one of the image, because others listen on this machine."""

    def __init__(
        self,
        name: str,
        *,
        root: Path,
        configuration: Mapping[str, Any],
        env: Mapping[str, str],
        port: int,
        log: Path,
        module: str | None = None,
    ) -> None:
        """Describe it; with `module`, it runs this program in place of that of the image."""
        super().__init__(name, port=port, log=log)
        self._program = configuration["Entrypoint"] if module is None else ["python", "-m", module]
        self._root = root
        self._configuration = configuration
        self.env = environment(configuration, {**env, "KB_HTTP_PORT": str(port)})

    def _launch(self) -> Child:
        command = enter(self._root, self._configuration, *self._program)
        return execute(command, log=self.log, env=self.env)

    async def is_ready(self) -> bool:
        return await answers_ok(f"http://{LOOPBACK}:{self.port}/readyz")

    async def is_healthy(self) -> bool:
        """Run the HEALTHCHECK of the image."""
        status, _ = await run_in_image(
            self._root, self._configuration, *self._configuration["Healthcheck"]["Test"][1:], env=self.env
        )
        return status == 0


def environment(configuration: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    return {**dict(line.split("=", 1) for line in configuration["Env"]), **env}


def enter(root: Path, configuration: Mapping[str, Any], *command: str, network: bool = True) -> list[str]:
    namespaces = ["--mount", "--propagation", "private", *([] if network else ["--net"])]
    return ["/usr/bin/unshare", *namespaces, "/bin/sh", "-c", _ENTER, "sh", str(root), configuration["User"], *command]


async def run_in_image(
    root: Path, configuration: Mapping[str, Any], *command: str, env: Mapping[str, str], network: bool = True
) -> tuple[int, str]:
    """Run a command in an image, and return its exit status and its output."""
    process = await asyncio.create_subprocess_exec(
        *enter(root, configuration, *command, network=network),
        env=dict(env),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()
