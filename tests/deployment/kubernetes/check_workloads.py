"""Checks what runs in pods: images, ports, probes, the end of a process, rights, resources, disruptions."""

import re
from collections.abc import Iterator
from typing import Final

from kb_shared.http.health import READY_TIMEOUT_S
from tests.deployment.kubernetes.facts import LIVENESS, PODS, READINESS, SERVICES, paths_of, stop_seconds
from tests.deployment.kubernetes.manifests import (
    Manifest,
    ManifestFinding,
    Manifests,
    Workload,
    check_each,
    place_of,
    selects,
)

USER: Final = 10001
LEAST_GRACE_S: Final = 60
PROBES: Final = {"startupProbe": LIVENESS, "livenessProbe": LIVENESS, "readinessProbe": READINESS}
IMAGE: Final = re.compile(r"(?:.+/)?(?P<name>[\w-]+):(?P<tag>[\w.-]+)")
_UNITS: Final = {"": 1.0, "m": 0.001, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}


def check_workloads(manifests: Manifests) -> Iterator[ManifestFinding]:
    for name in PODS:
        if manifests.find_workload(name) is None:
            kind = "Deployment" if name in SERVICES else "Job or CronJob"
            yield ManifestFinding(f"{kind} {name}", "it is missing", "a workload for each service and command")
    yield from check_each([each.name for each in manifests.workloads], PODS, place="all workloads", what="the workload")
    for workload in manifests.workloads:
        if workload.name not in PODS:
            continue
        yield from _check_image(workload)
        yield from _check_rights(workload)
        yield from _check_references(manifests, workload)
        yield from _check_resources(workload)
        if workload.name in SERVICES:
            yield from _check_selector(workload)
            yield from _check_port(manifests, workload)
            yield from _check_probes(workload)
            yield from _check_end(workload)
            yield from _check_spread(workload)
            yield from _check_disruptions(manifests, workload)
    yield from _check_tags(manifests)


def _check_image(workload: Workload) -> Iterator[ManifestFinding]:
    image, name = workload.container["image"], PODS[workload.name].image
    match = IMAGE.fullmatch(image)
    if match is None or match["name"] != name or match["tag"] == "latest":
        yield ManifestFinding(workload.place, f"image {image}", f"{name} with the tag of a version")


def _check_tags(manifests: Manifests) -> Iterator[ManifestFinding]:
    tags = {each.container["image"].rpartition(":")[2] for each in manifests.workloads} - {"latest"}
    if len(tags) > 1:
        yield ManifestFinding("all workloads", f"images of several versions: {', '.join(sorted(tags))}", "one version")


def _check_rights(workload: Workload) -> Iterator[ManifestFinding]:
    expected = {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    yield from _compare(workload, "securityContext of the pod", workload.spec.get("securityContext"), expected)
    in_container = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    own = workload.container.get("securityContext")
    yield from _compare(workload, "securityContext of the container", own, in_container)
    for key in ("automountServiceAccountToken", "enableServiceLinks"):
        yield from _compare(workload, key, workload.spec.get(key), expected=False)
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if workload.spec.get(key):
            yield ManifestFinding(workload.place, f"{key} is on", "no part of the node")


def _check_references(manifests: Manifests, workload: Workload) -> Iterator[ManifestFinding]:
    spec, place = workload.spec, workload.place
    for kind, name in (
        ("ServiceAccount", spec.get("serviceAccountName")),
        *((("PriorityClass", spec["priorityClassName"]),) if "priorityClassName" in spec else ()),
        *(
            ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
            for volume in spec["volumes"]
            if "persistentVolumeClaim" in volume
        ),
        *(
            ("ConfigMap", source["configMapRef"]["name"])
            for source in workload.container.get("envFrom", [])
            if "configMapRef" in source
        ),
    ):
        known = [each["metadata"]["name"] for each in manifests.of_kind(kind)]
        yield from check_each([str(name)], known, place=place, what=kind)
    mounts = {each["mountPath"]: each["name"] for each in workload.container["volumeMounts"]}
    volumes = {each["name"]: each for each in spec["volumes"]}
    yield from check_each(mounts.values(), volumes, place=place, what="volume")
    if "emptyDir" not in volumes.get(mounts.get("/tmp", ""), {}):
        yield ManifestFinding(place, "/tmp is not writable", "an emptyDir at /tmp")


def _check_resources(workload: Workload) -> Iterator[ManifestFinding]:
    resources = workload.container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    if not {"cpu", "memory"} <= requests.keys() or "memory" not in limits:
        yield ManifestFinding(
            workload.place, f"resources {resources}", "requests of cpu and memory, and a limit of memory"
        )
    elif amount(requests["memory"]) > amount(limits["memory"]):
        yield ManifestFinding(workload.place, "more memory is requested than allowed", "a request below the limit")


def _check_selector(workload: Workload) -> Iterator[ManifestFinding]:
    selector = workload.manifest["spec"]["selector"]
    if not selects(selector, workload.labels):
        yield ManifestFinding(
            workload.place, f"selector {selector} does not select its pods", f"labels {workload.labels}"
        )


def _check_port(manifests: Manifests, workload: Workload) -> Iterator[ManifestFinding]:
    port = workload.port_names.get("http")
    setting = manifests.environment_of(workload).get("KB_HTTP_PORT")
    if str(port) != setting:
        yield ManifestFinding(workload.place, f"port http is {port}", f"KB_HTTP_PORT, which is {setting}")


def _check_probes(workload: Workload) -> Iterator[ManifestFinding]:
    for name, path in PROBES.items():
        probe = workload.container.get(name)
        if probe is None:
            yield ManifestFinding(workload.place, f"no {name}", f"GET {path} at the port http")
            continue
        request = probe.get("httpGet", {})
        if request.get("path") != path or path not in paths_of(workload.name):
            yield ManifestFinding(workload.place, f"{name} asks {request.get('path')}", path)
        yield from check_each([request.get("port")], workload.port_names, place=workload.place, what=f"port of {name}")
    readiness = workload.container.get("readinessProbe")
    if readiness is not None and readiness.get("timeoutSeconds", 1) <= READY_TIMEOUT_S:
        yield ManifestFinding(
            workload.place, "readinessProbe is too impatient", f"a timeout above {READY_TIMEOUT_S:g} s"
        )


def _check_end(workload: Workload) -> Iterator[ManifestFinding]:
    hook = workload.container.get("lifecycle", {}).get("preStop", {})
    pause_s = hook.get("sleep", {}).get("seconds", 0)
    if "exec" in hook:
        yield ManifestFinding(workload.place, "preStop runs a program", "sleep: the images have no shell")
    if PODS[workload.name].serves_callers and not pause_s:
        yield ManifestFinding(workload.place, "it closes its port before the Ingress knows", "a preStop sleep")
    grace_s = workload.spec.get("terminationGracePeriodSeconds", 30)
    needed_s = max(LEAST_GRACE_S, pause_s + stop_seconds(workload.name))
    if grace_s < needed_s:
        wrong = f"terminationGracePeriodSeconds is {grace_s}"
        yield ManifestFinding(workload.place, wrong, f"at least {needed_s:g}, which its stop may take")


def _check_spread(workload: Workload) -> Iterator[ManifestFinding]:
    constraints = workload.spec.get("topologySpreadConstraints", [])
    for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname"):
        of_key = [each for each in constraints if each["topologyKey"] == key]
        if not any(selects(each["labelSelector"], workload.labels) for each in of_key):
            yield ManifestFinding(workload.place, f"replicas are not spread over {key}", "a topologySpreadConstraint")


def _check_disruptions(manifests: Manifests, workload: Workload) -> Iterator[ManifestFinding]:
    budgets = [
        each for each in manifests.of_kind("PodDisruptionBudget") if selects(each["spec"]["selector"], workload.labels)
    ]
    if len(budgets) != 1:
        yield ManifestFinding(workload.place, f"{len(budgets)} PodDisruptionBudgets select its pods", "one")
    for budget in budgets:
        if budget["spec"].get("maxUnavailable") != 1:
            yield ManifestFinding(place_of(budget), "it may stop a node from being drained", "maxUnavailable: 1")


def amount(quantity: str) -> float:
    """Return the number that a quantity of Kubernetes means."""
    number, unit = re.fullmatch(r"([\d.]+)(\w*)", str(quantity)).groups()  # type: ignore[union-attr]  # schemas check it
    return float(number) * _UNITS[unit]


def _compare(workload: Workload, what: str, found: object, expected: Manifest | bool) -> Iterator[ManifestFinding]:
    if found != expected:
        yield ManifestFinding(workload.place, f"{what} is {found}", str(expected))
