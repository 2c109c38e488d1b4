"""Plants a mistake in the manifests, together with the finding that has to name it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.deployment.kubernetes.manifests import Manifest, Manifests

Plant = Callable[[Manifests], None]


@dataclass(frozen=True, slots=True)
class PlantedMistake:
    name: str
    change: Plant
    place: str
    """Object that the finding names."""
    wrong: str
    """Part of what the finding says."""
    overlay: str = "prod"


def in_object(kind: str, name: str, change: Callable[[Manifest], Any]) -> Plant:
    return lambda manifests: change(manifests.get(kind, name))


def in_container(name: str, change: Callable[[Manifest], Any], *, kind: str = "Deployment") -> Plant:
    return in_object(kind, name, lambda manifest: change(manifest["spec"]["template"]["spec"]["containers"][0]))


def in_pod(name: str, change: Callable[[Manifest], Any], *, kind: str = "Deployment") -> Plant:
    return in_object(kind, name, lambda manifest: change(manifest["spec"]["template"]["spec"]))


def without(kind: str, name: str) -> Plant:
    def change(manifests: Manifests) -> None:
        manifests.objects.remove(manifests.get(kind, name))

    return change


def in_settings(config_map: str, **values: str) -> Plant:
    def change(manifests: Manifests) -> None:
        # Its name ends with a hash.
        [found] = [each for each in manifests.of_kind("ConfigMap") if base_name(each) == config_map]
        found["data"].update(values)

    return change


def base_name(config_map: Manifest) -> str:
    return str(config_map["metadata"]["name"]).rpartition("-")[0]


def add_variable(container: Manifest, name: str, value: str) -> None:
    container.setdefault("env", []).append({"name": name, "value": value})


def remove_variable(container: Manifest, name: str) -> None:
    container["env"] = [each for each in container["env"] if each["name"] != name]


def renamed(manifest: Manifest, name: str) -> Manifest:
    """Return an object with another name."""
    return manifest | {"metadata": manifest["metadata"] | {"name": name}}


def write_into_manifest(container: Manifest, name: str, value: str) -> None:
    """Replace the reference of a variable to a Secret by its value."""
    remove_variable(container, name)
    add_variable(container, name, value)


def of_policy(name: str, change: Callable[[Manifest], Any]) -> Plant:
    return in_object("NetworkPolicy", name, lambda manifest: change(manifest["spec"]))


def selected(spec: Manifest) -> list[str]:
    values: list[str] = spec["podSelector"]["matchExpressions"][0]["values"]
    return values


def of_ingress(change: Callable[[list[Manifest]], Any]) -> Plant:
    return in_object(
        "Ingress", "knowledge-bases", lambda manifest: change(manifest["spec"]["rules"][0]["http"]["paths"])
    )


def annotate(annotation: str, value: str) -> Plant:
    def change(manifest: Manifest) -> None:
        manifest["metadata"]["annotations"][annotation] = value

    return in_object("Ingress", "knowledge-bases", change)


def of_scaler(change: Callable[[Manifest], Any]) -> Plant:
    return in_object("ScaledObject", "kb-indexer", lambda manifest: change(manifest["spec"]))


def of_trigger(number: int, key: str, value: str) -> Plant:
    return of_scaler(lambda spec: spec["triggers"][number]["metadata"].update({key: value}))


def in_monitor(**values: Any) -> Plant:
    return in_object(
        "ServiceMonitor", "knowledge-bases", lambda manifest: manifest["spec"]["endpoints"][0].update(values)
    )


def with_rule(expression: str) -> Plant:
    """Add a recording rule."""
    rules = [{"record": "kb:planted:rule", "expr": expression}]
    return in_object(
        "PrometheusRule",
        "knowledge-bases",
        lambda manifest: manifest["spec"]["groups"].append({"name": "planted", "rules": rules}),
    )


API: Final = "Deployment kb-api"
INDEXER: Final = "Deployment kb-indexer"
RUNNER: Final = "Deployment kb-knowledge-runner"
SEARCH: Final = "Deployment kb-search"
SCALER: Final = "ScaledObject kb-indexer"
INGRESS: Final = "Ingress knowledge-bases"
MONITOR: Final = "ServiceMonitor knowledge-bases"
