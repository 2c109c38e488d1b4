import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner, Result

from kb_client.cli import create_app
from kb_local import monitoring_programs
from kb_local.monitoring import MonitoringOptions
from kb_local.monitoring_config import read_yaml, with_local_receivers, with_local_targets
from kb_local.monitoring_programs import CHECKOUT
from kb_local.stack import Stack
from kb_local.state import Home, StackState
from kb_local.supervisor import LAUNCH_SETTINGS
from kb_local.wanted_services import ALL_SERVICES
from kb_local.zygote import Zygote
from tests.integration.local.conftest import NO_MODELS
from tests.waiting import until

CONFIG = CHECKOUT / "observability" / "prometheus" / "prometheus.yml"


def localized(interval_s: float | None = None) -> dict[str, Any]:
    return with_local_targets(
        read_yaml(CONFIG),
        rules=Path("/rules"),
        targets=Path("/targets"),
        alertmanager="127.0.0.1:9093",
        interval_s=interval_s,
    )


def test_a_local_prometheus_differs_from_that_of_compose_only_in_addresses() -> None:
    of_compose, local = read_yaml(CONFIG), localized()
    assert local["rule_files"] == ["/rules/rules/*.yml"]
    assert local["alerting"] == {"alertmanagers": [{"static_configs": [{"targets": ["127.0.0.1:9093"]}]}]}
    for job in of_compose["scrape_configs"]:
        del job["dns_sd_configs"]
        job["file_sd_configs"] = [{"files": [f"/targets/{job['job_name']}.json"]}]
    assert local["scrape_configs"] == of_compose["scrape_configs"]
    assert local["global"] == of_compose["global"]


def test_every_service_has_a_job_of_its_name() -> None:
    jobs = {job["job_name"] for job in localized()["scrape_configs"]}
    assert jobs == {re.sub("[_.]", "-", service) for service in ALL_SERVICES}


def test_another_interval_is_that_of_scrapes_and_of_rules() -> None:
    assert localized(interval_s=0.5)["global"] == {
        "scrape_interval": "500ms",
        "scrape_timeout": "500ms",
        "evaluation_interval": "500ms",
    }


def test_a_local_alertmanager_keeps_routes_and_sends_to_no_real_receiver() -> None:
    pager = {"name": "pager", "pagerduty_configs": [{"routing_key_file": "/run/secrets/pager"}]}
    config = {"route": {"receiver": "pager"}, "inhibit_rules": [{}], "receivers": [pager]}
    silent = {**config, "receivers": [{"name": "pager"}]}
    assert with_local_receivers(config, webhook_url=None) == silent
    url = "http://127.0.0.1:1/"
    assert with_local_receivers(config, webhook_url=url)["receivers"] == [
        {"name": "pager", "webhook_configs": [{"url": url, "send_resolved": True}]}
    ]


def kb(*arguments: str) -> Result:
    return CliRunner().invoke(create_app(), arguments)


def test_without_the_programs_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".kb"
    monkeypatch.setenv("KB_HOME", str(folder))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(monitoring_programs, "INSTALLED", tmp_path)
    result = kb("up", "--observe")
    assert result.exit_code == 1
    assert "error: prometheus: prometheus is not installed" in result.stderr
    assert "error: alertmanager: alertmanager is not installed" in result.stderr
    assert "remedy: put prometheus" in result.stderr
    assert not folder.exists()


def test_a_stack_that_runs_without_prometheus_is_not_reported_as_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / ".kb")
    monkeypatch.setenv("KB_HOME", str(home.folder))
    home.prepare()
    with home.locked():
        home.write_state(StackState(phase="ready", supervisor_pid=os.getpid(), base_url="http://127.0.0.1:1"))
        assert kb("up").exit_code == 0
        result = kb("up", "--observe")
    assert result.exit_code == 1
    assert "runs without Prometheus" in result.stderr
    assert "remedy: `kb down`, then `kb up --observe`" in result.stderr


def test_a_service_does_not_get_the_setting_that_starts_prometheus() -> None:
    assert "KB_LOCAL_OBSERVE" in LAUNCH_SETTINGS


@pytest.fixture
async def observed(tmp_path: Path, light_zygote: Zygote) -> AsyncIterator[Stack]:
    """A stack with a dummy service whose Prometheus has a job for it, and scrapes ten times a second."""
    configs = tmp_path / "observability"
    for folder in ("prometheus/rules", "alertmanager"):
        (configs / folder).mkdir(parents=True)
    config = {"global": {}, "rule_files": ["rules/*.yml"], "scrape_configs": [{"job_name": "kb-dummy"}]}
    (configs / "prometheus" / "prometheus.yml").write_text(yaml.safe_dump(config))
    rule = {"alert": "Dummy", "expr": 'up{job="kb-dummy"} == 1'}
    (configs / "prometheus" / "rules" / "dummy.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "dummy", "rules": [rule]}]})
    )
    route = {"receiver": "silent", "group_by": ["instance"], "group_wait": "0s"}
    (configs / "alertmanager" / "alertmanager.yml").write_text(
        yaml.safe_dump({"route": route, "receivers": [{"name": "silent"}]})
    )
    async with Stack(
        tmp_path / ".kb",
        services=["kb_dummy"],
        zygote=light_zygote,
        models_api_base=NO_MODELS,
        monitoring=MonitoringOptions(configs=configs, interval_s=0.1),
    ) as stack:
        yield stack


async def instances(url: str) -> set[str]:
    async with httpx.AsyncClient() as client:
        answer = (await client.get(url)).json()
    alerts = answer["data"]["alerts"] if isinstance(answer, dict) else answer
    return {alert["labels"]["instance"] for alert in alerts}


@pytest.mark.prometheus
async def test_services_are_scraped_also_those_that_start_later_and_their_alerts_are_routed(observed: Stack) -> None:
    monitoring = observed.monitoring
    assert monitoring is not None
    first = {f"127.0.0.1:{observed.services['kb_dummy'].port}"}

    async def all_alert(services: set[str]) -> bool:
        return await instances(f"{monitoring.alertmanager.url}/api/v2/alerts") == services

    await until(lambda: all_alert(first))
    second = await observed.start_service("kb_dummy:2")
    await until(lambda: all_alert(first | {f"127.0.0.1:{second.port}"}))
    assert await instances(f"{monitoring.prometheus.url}/api/v1/alerts") == first | {f"127.0.0.1:{second.port}"}


@pytest.mark.prometheus
async def test_figures_outlive_the_process_of_prometheus(observed: Stack) -> None:
    assert observed.monitoring is not None
    prometheus = observed.monitoring.prometheus

    async def scrapes() -> int:
        async with httpx.AsyncClient() as client:
            query = {"query": 'count_over_time(up{job="kb-dummy"}[1h])'}
            answer = (await client.get(f"{prometheus.url}/api/v1/query", params=query)).json()
        return sum(int(series["value"][1]) for series in answer["data"]["result"])

    async def has_many() -> bool:
        return await scrapes() >= 20

    await until(has_many)
    await prometheus.kill()
    await observed.services["kb_dummy"].kill()
    observed.monitoring.write_targets([])
    await prometheus.start()
    assert await scrapes() >= 20


@pytest.mark.prometheus
async def test_the_pages_of_prometheus_and_alertmanager_are_installed_with_them(observed: Stack) -> None:
    assert observed.monitoring is not None
    prometheus, alertmanager = observed.monitoring.prometheus.url, observed.monitoring.alertmanager.url
    async with httpx.AsyncClient(follow_redirects=True) as client:
        page = await client.get(prometheus)
        assert "<title>Prometheus" in page.raise_for_status().text
        # Prometheus's own releases have other pages, which are part of the program.
        for script in re.findall(r'src="(/classic/[^"]+)"', page.text):
            (await client.get(f"{prometheus}{script}")).raise_for_status()
        assert "<title>Alertmanager" in (await client.get(alertmanager)).raise_for_status().text
