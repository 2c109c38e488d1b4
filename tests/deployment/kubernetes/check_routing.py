"""Checks the way of a request: the Ingress routes as the local gateway does, and the Services find their pods."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from kb_api.settings import ApiSettings
from kb_local.gateway import route_upstream
from kb_search.settings import SearchSettings
from tests.deployment.kubernetes.facts import HEALTH_PATHS, SERVICES, paths_of
from tests.deployment.kubernetes.manifests import Manifest, ManifestFinding, Manifests, check_each, place_of, selects

OPENAPI: Final = "/openapi.json"
IDS: Final = ("0123456789abcdef01234567", "search", "runs", "agents:x", "metrics", "a.b_c-d")
"""Values that callers may put in the place of an id. Some look like another part of a path."""
MCP: Final = ("/mcp", "/v0/orgs/acme/mcp")
REGEX: Final = "nginx.org/path-regex"


def check_routing(manifests: Manifests) -> Iterator[ManifestFinding]:
    for service in manifests.of_kind("Service"):
        yield from _check_service(manifests, service)
    for name in SERVICES:
        if manifests.find("Service", name) is None:
            yield ManifestFinding(f"Service {name}", "it is missing", "a Service for each service")
    ingresses = manifests.of_kind("Ingress")
    if len(ingresses) != 1:
        yield ManifestFinding("Ingress", f"there are {len(ingresses)}", "one, for the one base URL")
    for ingress in ingresses:
        yield from _check_backends(manifests, ingress)
        yield from _check_paths(ingress)
        yield from _check_limits(ingress)
        yield from _check_host(manifests, ingress)


def _check_service(manifests: Manifests, service: Manifest) -> Iterator[ManifestFinding]:
    selected = [
        each for each in manifests.workloads if selects({"matchLabels": service["spec"]["selector"]}, each.labels)
    ]
    if [each.name for each in selected] != [service["metadata"]["name"]]:
        wrong = f"it selects {', '.join(each.name for each in selected) or 'no pods'}"
        yield ManifestFinding(place_of(service), wrong, f"the pods of {service['metadata']['name']}")
        return
    targets = [port["targetPort"] for port in service["spec"]["ports"]]
    yield from check_each(targets, selected[0].port_names, place=place_of(service), what="targetPort")


def _check_backends(manifests: Manifests, ingress: Manifest) -> Iterator[ManifestFinding]:
    for path in _paths(ingress):
        backend = path["backend"]["service"]
        service = manifests.find("Service", backend["name"])
        ports = [] if service is None else [port["name"] for port in service["spec"]["ports"]]
        name = f"port of Service {backend['name']}"
        yield from check_each([backend["port"].get("name")], ports, place=place_of(ingress), what=name)
        if path["pathType"] != "ImplementationSpecific":
            wrong = f"path {path['path']} is of type {path['pathType']}"
            yield ManifestFinding(place_of(ingress), wrong, "ImplementationSpecific: it is a regular expression")
    if ingress["metadata"].get("annotations", {}).get(REGEX) != "case_sensitive":
        yield ManifestFinding(place_of(ingress), f"annotation {REGEX} is missing", "case_sensitive")


def _check_paths(ingress: Manifest) -> Iterator[ManifestFinding]:
    in_order = [(path["path"], path["backend"]["service"]["name"]) for path in _paths(ingress)]
    # NGINX takes the first that matches, Traefik the longest.
    orders = {"in order": in_order, "by length": sorted(in_order, key=lambda each: -len(each[0]))}
    for how, patterns in orders.items():
        if (wrong := _first_wrong(tuple(patterns))) is not None:
            path, routed, expected = wrong
            yield ManifestFinding(
                place_of(ingress), f"{how}, {path} goes to {routed or 'no service'}", expected or "no service"
            )
            return


@cache
def _first_wrong(patterns: tuple[tuple[str, str], ...]) -> tuple[str, str | None, str | None] | None:
    """Return the first request that goes elsewhere than it should; most manifests have the same patterns."""
    routes = ((path, _route(patterns, path), expected) for path, expected in _requests())
    return next((request for request in routes if request[1] != request[2]), None)


@cache
def _requests() -> Sequence[tuple[str, str | None]]:
    """Return paths that callers may send, each with the service that answers it; None: the path is not for them."""
    return list(_generate_requests())


def _generate_requests() -> Iterator[tuple[str, str | None]]:
    templates = {
        path for service in ("kb-api", "kb-search", "kb-knowledge", "kb-console") for path in paths_of(service)
    } - HEALTH_PATHS
    for template in sorted(templates):
        for number in range(len(IDS)):
            ids = iter(IDS[number:] + IDS[:number])
            path = re.sub(r"\{\w+(?::path)?\}", lambda _: next(ids), template)  # noqa: B023  # used at once
            yield path, route_upstream(path)
    for path in (*MCP, OPENAPI):
        yield path, route_upstream(path)
    for path in HEALTH_PATHS:
        yield path, None
        yield f"{path}/", None
        yield path.upper(), None


def _route(patterns: Sequence[tuple[str, str]], path: str) -> str | None:
    return next((service for pattern, service in patterns if re.match(pattern, path)), None)


def _check_limits(ingress: Manifest) -> Iterator[ManifestFinding]:
    annotations = ingress["metadata"].get("annotations", {})
    size = int(annotations.get("nginx.org/client-max-body-size", "1m").removesuffix("m")) * 2**20
    if size < (needed := ApiSettings.model_fields["max_text_bytes"].default):
        yield ManifestFinding(
            place_of(ingress), f"bodies have at most {size} bytes", f"at least {needed}, KB_MAX_TEXT_BYTES"
        )
    seconds = int(annotations.get("nginx.org/proxy-read-timeout", "60s").removesuffix("s"))
    if seconds <= (longest := SearchSettings.model_fields["run_max_seconds"].default):
        wrong = f"an answer may pause for {seconds} s"
        yield ManifestFinding(place_of(ingress), wrong, f"more than {longest:g} s, KB_RUN_MAX_SECONDS")
    if annotations.get("nginx.org/proxy-buffering") != "False":
        yield ManifestFinding(place_of(ingress), "answers are buffered", "streams reach callers as they come")


def _check_host(manifests: Manifests, ingress: Manifest) -> Iterator[ManifestFinding]:
    hosts = {rule.get("host") for rule in ingress["spec"]["rules"]}
    with_tls = {host for each in ingress["spec"].get("tls", []) for host in each["hosts"]}
    if manifests.overlay == "prod" and hosts != with_tls:
        yield ManifestFinding(place_of(ingress), f"TLS is for {sorted(with_tls)}", f"TLS for {sorted(map(str, hosts))}")


def _paths(ingress: Manifest) -> list[Manifest]:
    return [path for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]]
