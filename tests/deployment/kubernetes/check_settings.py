"""Checks the variables of each pod: each is a setting of its service, and the service accepts all of them together."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from tests.deployment.kubernetes.facts import PODS, PodFacts
from tests.deployment.kubernetes.manifests import ROOT, Manifest, ManifestFinding, Manifests, Workload, place_of
from tests.deployment.kubernetes.service_settings import SAMPLES, read_settings

SecretKey: TypeAlias = tuple[str, str | None]
"""Name of a Secret and one of its keys; None: all of them."""

REQUIRED_SECRETS: Final = frozenset({"KB_MONGO_URI", "KB_API_KEY_PEPPER", "KB_PROVIDER_KEYS", "KB_CONSOLE_SECRET"})
"""Settings that have to come from Secrets where a service has them."""
PAGE: Final = ROOT / "docs/how-to/deploy-on-kubernetes.md"
OPEN_TELEMETRY: Final = "OTEL_"
_OF_KUBERNETES: Final = frozenset({"JOB_NAME"})


def check_settings(manifests: Manifests) -> Iterator[ManifestFinding]:
    for workload in manifests.workloads:
        facts = PODS.get(workload.name)
        if facts is None:
            continue
        plain, secret = manifests.environment_of(workload), _secret_variables(workload)
        yield from _check_names(workload, facts, plain.keys() | secret.keys())
        yield from _check_secrets(workload, facts, plain, secret)
        yield from _check_values(manifests, workload, facts, plain | {name: SAMPLES.get(name, "x") for name in secret})
        yield from _check_documented(_used_secrets(workload, plain, secret), place=workload.place)
    for authentication in manifests.of_kind("TriggerAuthentication"):
        keys = [(each["name"], each["key"]) for each in authentication["spec"]["secretTargetRef"]]
        yield from _check_documented(keys, place=place_of(authentication))


def _check_names(workload: Workload, facts: PodFacts, names: set[str]) -> Iterator[ManifestFinding]:
    known = {f"KB_{name.upper()}" for name in facts.settings.model_fields}
    if not facts.uses_kafka:
        known = {name for name in known if not name.startswith("KB_KAFKA")}
    for name in sorted(names):
        if name not in known | _OF_KUBERNETES and not name.startswith(OPEN_TELEMETRY):
            yield ManifestFinding(workload.place, f"{name} is no setting of {workload.name}", "a name of settings.md")


def _check_secrets(
    workload: Workload, facts: PodFacts, plain: Mapping[str, str], secret: Mapping[str, Manifest]
) -> Iterator[ManifestFinding]:
    for name in sorted(SAMPLES.keys() & plain.keys()):
        yield ManifestFinding(workload.place, f"{name} is in a manifest", "a reference to a Secret")
    for field in facts.settings.model_fields:
        name = f"KB_{field.upper()}"
        if name in REQUIRED_SECRETS and name not in secret.keys() | plain.keys():
            yield ManifestFinding(workload.place, f"{name} is missing", "a reference to a Secret")
        elif name in REQUIRED_SECRETS and secret.get(name, {}).get("optional"):
            yield ManifestFinding(workload.place, f"{name} is optional", "a Secret without which no pod starts")
    has_keys = any("secretRef" in each for each in workload.container.get("envFrom", []))
    if has_keys != facts.calls_providers:
        wrong = f"it {'has' if has_keys else 'lacks'} the keys of the providers"
        yield ManifestFinding(workload.place, wrong, "the keys where providers are called, and nowhere else")


def _check_values(
    manifests: Manifests, workload: Workload, facts: PodFacts, environment: Mapping[str, str]
) -> Iterator[ManifestFinding]:
    own = {name: value for name, value in environment.items() if name not in _OF_KUBERNETES}
    for name, value in own.items():
        if name.endswith("_FILE") and value and str(Path(value).parent) not in _mounted_secrets(workload):
            yield ManifestFinding(workload.place, f"{name} is {value}", "a file in a mounted Secret")
            return
    settings = read_settings(facts.settings, tuple(sorted(own.items())))
    if isinstance(settings, str):
        yield ManifestFinding(workload.place, f"its settings are refused: {settings}", "values that it accepts")
        return
    if workload.port_names and settings.http_host != "0.0.0.0":
        yield ManifestFinding(workload.place, f"it listens on {settings.http_host}", "0.0.0.0")
    wanted = "production" if manifests.overlay == "prod" else "development"
    if settings.environment != wanted:
        yield ManifestFinding(workload.place, f"KB_ENVIRONMENT is {settings.environment}", wanted)


def _check_documented(used: Iterable[SecretKey], *, place: str) -> Iterator[ManifestFinding]:
    """Compare the Secrets with the table of the page on how to deploy."""
    rows = re.findall(r"^\| `([\w-]+)` \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE)
    documented = {name: set(re.findall(r"`([\w.-]+)`", keys)) for name, keys in rows}
    for name, key in used:
        if name not in documented or (key is not None and key not in documented[name]):
            wrong = (
                f"Secret {name!r} is not documented"
                if key is None
                else f"key {key!r} of Secret {name!r} is not documented"
            )
            yield ManifestFinding(place, wrong, f"a row in {PAGE.relative_to(ROOT)}")


def _used_secrets(workload: Workload, plain: Mapping[str, str], secret: Mapping[str, Manifest]) -> Iterator[SecretKey]:
    """Yield the Secrets that a pod uses, each with a key, or None for all of its keys."""
    yield from ((each["name"], each["key"]) for each in secret.values())
    yield from ((each["secretRef"]["name"], None) for each in workload.container["envFrom"] if "secretRef" in each)
    mounted = _mounted_secrets(workload)
    yield from ((name, None) for name in mounted.values())
    for name, value in plain.items():
        if name.endswith("_FILE") and (folder := str(Path(value).parent)) in mounted:
            yield mounted[folder], Path(value).name


def _secret_variables(workload: Workload) -> dict[str, Manifest]:
    return {
        each["name"]: reference
        for each in workload.container.get("env", [])
        if (source := each.get("valueFrom")) is not None
        for reference in [source.get("secretKeyRef")]
        if reference is not None
    }


def _mounted_secrets(workload: Workload) -> dict[str, str]:
    """Return the Secret that is mounted at each path."""
    secrets = {each["name"]: each["secret"]["secretName"] for each in workload.spec["volumes"] if "secret" in each}
    mounts = workload.container["volumeMounts"]
    return {each["mountPath"]: secrets[each["name"]] for each in mounts if each["name"] in secrets}
