"""The objects that an overlay of `k8s/` renders, and ways to find some of them."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

ROOT: Final = Path(__file__).parents[3]
OVERLAYS: Final = ("dev", "prod")
NAME_LABEL: Final = "app.kubernetes.io/name"

Manifest: TypeAlias = dict[str, Any]


class ManifestFinding(NamedTuple):
    place: str
    """Kind and name of the object."""
    wrong: str
    expected: str

    def __str__(self) -> str:
        return f"{self.place}: {self.wrong}; expected: {self.expected}"


@dataclass(frozen=True, slots=True)
class Workload:
    """Object that creates pods: a Deployment, Job or CronJob."""

    manifest: Manifest
    pod: Manifest
    """Its template of pods."""

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def place(self) -> str:
        return place_of(self.manifest)

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.pod["metadata"]["labels"]
        return labels

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.pod["spec"]
        return spec

    @property
    def container(self) -> Manifest:
        """Return its only container."""
        [container] = self.spec["containers"]
        return dict(container)

    @property
    def port_names(self) -> Mapping[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}


@dataclass(frozen=True, slots=True)
class Manifests:
    """All objects of an overlay."""

    overlay: str
    objects: list[Manifest]

    def of_kind(self, kind: str) -> list[Manifest]:
        return [each for each in self.objects if each["kind"] == kind]

    def find(self, kind: str, name: str) -> Manifest | None:
        return next((each for each in self.of_kind(kind) if each["metadata"]["name"] == name), None)

    def get(self, kind: str, name: str) -> Manifest:
        """Return an object.

        Raises:
            LookupError: it does not exist.
        """
        found = self.find(kind, name)
        if found is None:
            raise LookupError(f"{kind} {name}")
        return found

    @property
    def workloads(self) -> list[Workload]:
        return [Workload(each, pod) for each in self.objects if (pod := _pod_of(each)) is not None]

    def find_workload(self, name: str) -> Workload | None:
        return next((each for each in self.workloads if each.name == name), None)

    def environment_of(self, workload: Workload) -> dict[str, str]:
        """Return the variables of its container that are not secret, as the ConfigMaps and the manifest set them."""
        values: dict[str, str] = {}
        for source in workload.container.get("envFrom", []):
            if (reference := source.get("configMapRef")) is not None:
                config_map = self.find("ConfigMap", reference["name"])
                values |= config_map["data"] if config_map is not None else {}
        return values | {each["name"]: each["value"] for each in workload.container.get("env", []) if "value" in each}


def place_of(manifest: Manifest) -> str:
    """Return how findings name an object."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def render(overlay: str) -> Manifests:
    """Return the objects of `k8s/overlays/<overlay>`, as a copy that may be changed."""
    return Manifests(overlay, json.loads(_rendered(overlay)))


def selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector of Kubernetes selects an object with these labels."""
    equal = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return equal and all(_holds(each, labels) for each in selector.get("matchExpressions", []))


def values_of(selector: Manifest) -> Iterator[str]:
    """Yield the values of the name label that a selector names."""
    if (name := selector.get("matchLabels", {}).get(NAME_LABEL)) is not None:
        yield name
    for expression in selector.get("matchExpressions", []):
        if expression["key"] == NAME_LABEL:
            yield from expression.get("values", [])


def check_each(names: Iterable[str], known: Iterable[str], *, place: str, what: str) -> Iterator[ManifestFinding]:
    """Report each name that is not known."""
    expected = sorted(known)
    for name in names:
        if name not in expected:
            yield ManifestFinding(place, f"{what} {name!r} does not exist", f"one of {', '.join(expected) or 'none'}")


def _holds(expression: Manifest, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            raise ValueError(operator)


def _pod_of(manifest: Manifest) -> Manifest | None:
    match manifest["kind"]:
        case "Deployment" | "StatefulSet" | "DaemonSet" | "Job":
            template: Manifest = manifest["spec"]["template"]
        case "CronJob":
            template = manifest["spec"]["jobTemplate"]["spec"]["template"]
        case _:
            return None
    return template


@cache
def _rendered(overlay: str) -> str:
    kubectl = str(Path(sys.executable).with_name("kubectl"))
    command = [kubectl, "kustomize", f"k8s/overlays/{overlay}"]
    rendered = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return json.dumps(list(yaml.load_all(rendered, Loader=yaml.CSafeLoader)), default=str)
