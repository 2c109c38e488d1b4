"""Configuration of Prometheus and Alertmanager for one machine, made from the files for compose."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

YamlMapping = Mapping[str, Any]


def read_yaml(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file.read_text())
    return content


def with_local_targets(
    config: YamlMapping, *, rules: Path, targets: Path, alertmanager: str, interval_s: float | None
) -> dict[str, Any]:
    """Return the configuration of Prometheus with other addresses; all else stays.

    Args:
        config: of Prometheus, with one job for each service.
        rules: folder that relative paths of rule files start from.
        targets: folder in which `<job>.json` lists the addresses of each job.
        alertmanager: address of the Alertmanager.
        interval_s: between two scrapes, and between two evaluations of the rules; None for that of `config`.
    """
    return {
        **config,
        "global": {**config["global"], **({} if interval_s is None else _intervals(interval_s))},
        "rule_files": [str(rules / pattern) for pattern in config["rule_files"]],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [_with_targets_from(targets, job) for job in config["scrape_configs"]],
    }


def _intervals(interval_s: float) -> dict[str, str]:
    duration = f"{round(interval_s * 1000)}ms"
    return dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), duration)


def _with_targets_from(folder: Path, job: YamlMapping) -> dict[str, Any]:
    kept = {name: value for name, value in job.items() if name != "static_configs" and not name.endswith("_sd_configs")}
    return {**kept, "file_sd_configs": [{"files": [str(folder / f"{job['job_name']}.json")]}]}


def jobs_of(config: YamlMapping) -> Sequence[str]:
    return [job["job_name"] for job in config["scrape_configs"]]


def with_local_receivers(config: YamlMapping, *, webhook_url: str | None) -> dict[str, Any]:
    """Return the configuration of Alertmanager with receivers that send nothing, or to one webhook; all else stays.

    Credentials of the real receivers are not on this machine.
    """
    notifications = {} if webhook_url is None else {"webhook_configs": [{"url": webhook_url, "send_resolved": True}]}
    return {**config, "receivers": [{"name": each["name"], **notifications} for each in config["receivers"]]}
