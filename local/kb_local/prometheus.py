import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import yaml

from kb_local.child import Child, execute
from kb_local.monitoring_config import jobs_of, read_yaml, with_local_targets
from kb_local.monitoring_programs import files_of, monitoring_program
from kb_local.ports import LOOPBACK
from kb_local.python_server import answers_ok
from kb_local.server import Server
from kb_local.service import Service


class Prometheus(Server):
    """Scrapes the services of a stack and evaluates the rules of the repository. Its data outlives the process."""

    def __init__(
        self, folder: Path, *, config: Path, alertmanager: str, port: int, log: Path, interval_s: float | None = None
    ) -> None:
        """Describe the server.

        Args:
            folder: of its data and its configuration, made when absent.
            config: the configuration for compose, of which the addresses are replaced. Its rules are beside it.
            alertmanager: address of the Alertmanager.
            port: on loopback.
            log: file that its output is appended to.
            interval_s: between two scrapes, and between two evaluations of the rules; None for that of `config`.
        """
        super().__init__("prometheus", port=port, log=log)
        self._folder = folder
        self._config = config
        self._targets = folder / "targets"
        self._alertmanager = alertmanager
        self._interval_s = interval_s

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def write_targets(self, services: Iterable[Service]) -> None:
        """List what is scraped from now on; a running Prometheus needs about five seconds to notice."""
        addresses: dict[str, list[str]] = defaultdict(list)
        for service in services:
            addresses[re.sub(r"[_.]", "-", service.package)].append(f"{LOOPBACK}:{service.port}")
        self._targets.mkdir(parents=True, exist_ok=True)
        for job in jobs_of(read_yaml(self._config)):
            # Prometheus must not read a part of it.
            draft = self._targets / f"{job}.draft"
            draft.write_text(json.dumps([{"targets": addresses[job]}]))
            draft.replace(self._targets / f"{job}.json")

    def _launch(self) -> Child:
        program = monitoring_program("prometheus")
        return execute(
            [
                str(program),
                f"--config.file={self._write_config()}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                # The month of the SLOs, as far as it has room.
                "--storage.tsdb.retention.time=30d",
                "--storage.tsdb.retention.size=1GB",
                "--query.max-samples=5000000",
                "--query.max-concurrency=4",
                f"--web.listen-address={LOOPBACK}:{self.port}",
                "--log.level=warn",
            ],
            log=self.log,
            env={**os.environ, "GOMEMLIMIT": "256MiB"},
            folder=files_of(program),
        )

    def _write_config(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = with_local_targets(
            read_yaml(self._config),
            rules=self._config.parent,
            targets=self._targets,
            alertmanager=self._alertmanager,
            interval_s=self._interval_s,
        )
        file = self._folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config, sort_keys=False))
        return file

    async def is_ready(self) -> bool:
        return await answers_ok(f"{self.url}/-/ready")
