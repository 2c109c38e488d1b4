"""Checks that Prometheus scrapes each service under its name, and that its rules are those of `observability/`."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import yaml

from tests.deployment.kubernetes.check_metrics import check_queries
from tests.deployment.kubernetes.facts import METRICS, SERVICES
from tests.deployment.kubernetes.manifests import (
    ROOT,
    Manifest,
    ManifestFinding,
    Manifests,
    check_each,
    place_of,
    selects,
)

RULES: Final = ROOT / "observability/prometheus/rules"
_RULE: Final = "PrometheusRule knowledge-bases"


def check_monitoring(manifests: Manifests) -> Iterator[ManifestFinding]:
    monitors = manifests.of_kind("ServiceMonitor")
    for name in SERVICES:
        service = manifests.find("Service", name)
        if service is None:
            continue
        own = [each for each in monitors if selects(each["spec"]["selector"], service["metadata"]["labels"])]
        if len(own) != 1:
            yield ManifestFinding(place_of(service), f"{len(own)} ServiceMonitors select it", "one")
        for monitor in own:
            yield from _check_job(monitor, service)
    for monitor in monitors:
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint.get("path", METRICS) != METRICS:
                yield ManifestFinding(place_of(monitor), f"it scrapes {endpoint['path']}", METRICS)
    yield from _check_rules(manifests)


def _check_job(monitor: Manifest, service: Manifest) -> Iterator[ManifestFinding]:
    name, place = service["metadata"]["name"], place_of(monitor)
    job = service["metadata"]["labels"].get(monitor["spec"].get("jobLabel"))
    if job != name:
        yield ManifestFinding(place, f"the job of {name} is {job}", name)
    ports = [port["name"] for port in service["spec"]["ports"]]
    wanted = [endpoint.get("port") for endpoint in monitor["spec"]["endpoints"]]
    yield from check_each(wanted, ports, place=place_of(service), what=f"port of {place}")


def _check_rules(manifests: Manifests) -> Iterator[ManifestFinding]:
    rules = manifests.of_kind("PrometheusRule")
    found = [group for rule in rules for group in rule["spec"]["groups"]]
    recorded = [rule["record"] for group in found for rule in group["rules"] if "record" in rule]
    queries = [rule["expr"] for group in found for rule in group["rules"]]
    if wrong := list(check_queries(queries, place=_RULE, recorded=recorded)):
        yield from wrong
    elif found != _groups_of_observability():
        yield ManifestFinding(
            _RULE, "its groups are not those of observability/prometheus/rules", "the output of `make manifests`"
        )


@cache
def _groups_of_observability() -> list[Any]:
    return [group for file in sorted(RULES.glob("*.yml")) for group in yaml.safe_load(file.read_text())["groups"]]
