"""Checks every object against the schema of its kind. An unknown kind and an unknown key are findings, too."""

import importlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import kubernetes_validate
from pydantic import ValidationError

from tests.deployment.kubernetes.manifests import Manifest, ManifestFinding, Manifests, place_of

KUBERNETES: Final = "1.33"
CUSTOM: Final = {
    ("keda.sh/v1alpha1", "ScaledObject"): "cloudcoil.models.keda.v1alpha1",
    ("keda.sh/v1alpha1", "TriggerAuthentication"): "cloudcoil.models.keda.v1alpha1",
    ("monitoring.coreos.com/v1", "ServiceMonitor"): "cloudcoil.models.prometheus_operator.v1",
    ("monitoring.coreos.com/v1", "PrometheusRule"): "cloudcoil.models.prometheus_operator.v1",
}
"""Modules with a model of the kind and its name."""


def check_schemas(manifests: Manifests) -> Iterator[ManifestFinding]:
    for manifest in manifests.objects:
        # Most objects are the same in every call, and a schema is slow.
        yield from _check(json.dumps(manifest, sort_keys=True))


@cache
def _check(manifest_json: str) -> tuple[ManifestFinding, ...]:
    manifest = json.loads(manifest_json)
    module = CUSTOM.get((manifest["apiVersion"], manifest["kind"]))
    if module is None:
        return tuple(_check_builtin(manifest))
    # Here, because the import takes two seconds of the CPU, which each worker would spend that collects the tests.
    model = getattr(importlib.import_module(module), manifest["kind"])
    return tuple(_check_custom(manifest, model))


def _check_builtin(manifest: Manifest) -> Iterator[ManifestFinding]:
    try:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        wrong = f"kind {manifest['kind']} of {manifest['apiVersion']} has no schema"
        yield ManifestFinding(
            place_of(manifest), wrong, f"a kind of Kubernetes {KUBERNETES}, or one of check_schemas.CUSTOM"
        )
    except kubernetes_validate.ValidationError as error:
        path = ".".join(str(part) for part in error.path)
        yield ManifestFinding(place_of(manifest), f"{path}: {error.message}", f"the schema of Kubernetes {KUBERNETES}")


def _check_custom(manifest: Manifest, model: Any) -> Iterator[ManifestFinding]:
    expected = f"the schema of {manifest['apiVersion']}"
    try:
        parsed = model.model_validate(manifest)
    except ValidationError as error:
        for each in error.errors():
            path = ".".join(str(part) for part in each["loc"])
            yield ManifestFinding(place_of(manifest), f"{path}: {each['msg']}", expected)
        return
    kept = parsed.model_dump(by_alias=True, exclude_unset=True, mode="json")
    # The models ignore keys that they don't know.
    for path in _lost_keys(manifest, kept):
        yield ManifestFinding(place_of(manifest), f"{path} is no key", expected)


def _lost_keys(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    if isinstance(given, dict):
        for key, value in given.items():
            inner = f"{path}.{key}".lstrip(".")
            if not isinstance(kept, dict) or key not in kept:
                yield inner
            else:
                yield from _lost_keys(value, kept[key], inner)
    elif isinstance(given, list):
        for number, value in enumerate(given):
            yield from _lost_keys(value, kept[number], f"{path}.{number}")
