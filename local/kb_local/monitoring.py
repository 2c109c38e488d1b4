"""Prometheus and Alertmanager beside a stack."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kb_local.alertmanager import Alertmanager
from kb_local.ports import Ports
from kb_local.prometheus import Prometheus
from kb_local.server import Server
from kb_local.service import Service
from kb_local.state import Home
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel

OBSERVE: Final = "KB_LOCAL_OBSERVE"
CONFIGS: Final = Path(__file__).parent / "monitoring_files"
"""Links to files in `observability/` of the repository; a wheel has the files themselves."""


def is_observed(environment: Mapping[str, str]) -> bool:
    """Say whether a stack with these settings has a Prometheus and an Alertmanager."""
    return environment.get(OBSERVE, "") not in {"", "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringOptions:
    configs: Path = CONFIGS
    """Folder with `prometheus/prometheus.yml`, the rules beside it, and `alertmanager/alertmanager.yml`."""
    interval_s: float | None = None
    """Between two scrapes, and between two evaluations of the rules; None for that of `prometheus.yml`."""
    webhook_url: str | None = None
    """Receives all notifications of Alertmanager; None sends none."""


class Monitoring:
    """A Prometheus that scrapes the services of a stack, and its Alertmanager."""

    def __init__(self, options: MonitoringOptions, *, home: Home, ports: Ports) -> None:
        self.alertmanager = Alertmanager(
            home.folder / "alertmanager",
            config=options.configs / "alertmanager" / "alertmanager.yml",
            port=ports.reserve("alertmanager"),
            log=home.log("alertmanager"),
            webhook_url=options.webhook_url,
        )
        self.prometheus = Prometheus(
            home.folder / "prometheus",
            config=options.configs / "prometheus" / "prometheus.yml",
            alertmanager=self.alertmanager.address,
            port=ports.reserve("prometheus"),
            log=home.log("prometheus"),
            interval_s=options.interval_s,
        )

    @property
    def servers(self) -> list[Server]:
        return [self.alertmanager, self.prometheus]

    def write_targets(self, services: Iterable[Service]) -> None:
        """Say which services are scraped from now on."""
        self.prometheus.write_targets(services)

    async def start(self) -> None:
        await run_all_or_cancel(server.start() for server in self.servers)

    async def stop(self) -> None:
        await run_all_or_cancel(server.stop() for server in self.servers)
