import os
from pathlib import Path

import yaml

from kb_local.child import Child, execute
from kb_local.monitoring_config import read_yaml, with_local_receivers
from kb_local.monitoring_programs import files_of, monitoring_program
from kb_local.ports import LOOPBACK
from kb_local.python_server import answers_ok
from kb_local.server import Server


class Alertmanager(Server):
    """Groups and inhibits the alerts of Prometheus by the routes of the repository."""

    def __init__(self, folder: Path, *, config: Path, port: int, log: Path, webhook_url: str | None = None) -> None:
        """Describe the server.

        Args:
            folder: of its data, made when absent.
            config: its configuration, of which the receivers are replaced.
            port: on loopback.
            log: file that its output is appended to.
            webhook_url: receives all notifications; None sends none.
        """
        super().__init__("alertmanager", port=port, log=log)
        self._folder = folder
        self._config = config
        self._webhook_url = webhook_url

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def _launch(self) -> Child:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "alertmanager.yml"
        config.write_text(yaml.safe_dump(with_local_receivers(read_yaml(self._config), webhook_url=self._webhook_url)))
        program = monitoring_program("alertmanager")
        return execute(
            [
                str(program),
                f"--config.file={config}",
                f"--storage.path={self._folder / 'data'}",
                f"--web.listen-address={self.address}",
                # It is alone, and would otherwise listen on all interfaces.
                "--cluster.listen-address=",
                "--log.level=warn",
            ],
            log=self.log,
            env={**os.environ, "GOMEMLIMIT": "64MiB"},
            folder=files_of(program),
        )

    async def is_ready(self) -> bool:
        return await answers_ok(f"{self.url}/-/ready")
