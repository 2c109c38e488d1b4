"""Checks compose.yaml against the code, the Dockerfile and .env.example. Each finding names what is wrong and where."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from compose_spec import PyCompose
from pydantic import ValidationError

from compose.write_env import fill
from kb_api.settings import ApiSettings
from kb_console.settings import ConsoleSettings
from kb_indexer.settings import IndexerSettings
from kb_knowledge.runner.settings import RunnerSettings
from kb_knowledge.settings import KnowledgeSettings
from kb_reconciler.settings import ReconcilerSettings
from kb_search.settings import SearchSettings
from kb_shared.settings import CommonSettings, ServerSettings

ROOT: Final = Path(__file__).resolve().parents[2]
SETTINGS: Final[Mapping[str, type[ServerSettings]]] = {
    "kb-api": ApiSettings,
    "kb-console": ConsoleSettings,
    "kb-indexer": IndexerSettings,
    "kb-knowledge": KnowledgeSettings,
    "kb-knowledge-runner": RunnerSettings,
    "kb-reconciler": ReconcilerSettings,
    "kb-search": SearchSettings,
    "set-up": CommonSettings,
}
READS_SOURCES: Final = "kb-knowledge-runner"
"""Service that connects to addresses that users name."""
NETWORKS_OF_RUNNER: Final = frozenset({"runner", "sources"})
RUN_ONCE: Final = frozenset({"set-up"})
WITHOUT_READ_ONLY_ROOT: Final = frozenset({"mongodb", "kafka"})
"""Images of others that write beside their volumes."""
WITH_CAPABILITIES: Final = frozenset({"mongodb"})
PROVIDER_KEYS: Final = frozenset({"OPENAI_API_KEY"})
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::([?-])([^}]*))?\}")
_OF_MONGODB: Final = ("KB_MONGO_URI", "KB_MONGO_DATABASE")


def find_mistakes(text: str, *, example: str, dockerfile: str) -> list[str]:
    """Return what is wrong with a compose file; empty if nothing is."""
    try:
        # Compose, too, resolves values and merges (`<<`) first and validates then.
        PyCompose.from_json(json.dumps(_parsed(_filled(text, _values(example)) or "")))
        services: dict[str, Any] = _parsed(text)["services"]
    except Exception as error:  # noqa: BLE001  # any error of the parsers is a finding
        return [f"compose.yaml is not valid: {error}"]
    return [
        *_variables(text, example),
        *(finding for name, service in services.items() for finding in _hardening(name, service)),
        *(finding for name, service in services.items() for finding in _health(name, service, dockerfile)),
        *(finding for name, service in services.items() for finding in _mounts(name, service)),
        *(finding for name, service in services.items() for finding in _ports(name, service)),
        *_own_services(services, example, dockerfile),
        *_dependencies(services),
        *_networks(services),
    ]


def _parsed(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


def _variables(text: str, example: str) -> Iterator[str]:
    named = dict(re.findall(r"(?m)^#?([A-Z_]+)=(.*)$", example))
    without_comments = re.sub(r"(?m)^\s*#.*$", "", text)
    used = {found[1]: found[2] for found in _VARIABLE.finditer(without_comments)}
    for name in sorted(used.keys() - named.keys()):
        yield f"${{{name}}} is not in .env.example"
    for name in sorted(named.keys() - used.keys() - PROVIDER_KEYS - {"COMPOSE_PROFILES"}):
        yield f"{name} of .env.example is used by no service"
    for name, how in used.items():
        if named.get(name, "").startswith("<random") and how != "?":
            yield f"${{{name}}} is a secret: without it, compose must refuse to start"


def _hardening(name: str, service: Mapping[str, Any]) -> Iterator[str]:
    yield from _privileges(name, service)
    yield from _operation(name, service)


def _operation(name: str, service: Mapping[str, Any]) -> Iterator[str]:
    tag = service.get("image", "").rpartition(":")[2]
    if not re.match(r"\$\{KB_VERSION:-local\}$|v?\d+\.\d+\.\d+", tag) and "build" not in service:
        yield f"{name}: image {service.get('image')!r} has no pinned version"
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    if not {"cpus", "memory", "pids"} <= limits.keys():
        yield f"{name}: has no limits of CPU, memory and processes"
    for key in ("restart", "logging", "profiles", "networks"):
        if not service.get(key):
            yield f"{name}: {key} is missing"
    if "max-size" not in service.get("logging", {}).get("options", {}):
        yield f"{name}: its logs grow without a limit"
    if name not in RUN_ONCE and "stop_grace_period" not in service:
        yield f"{name}: has no time to stop"


def _privileges(name: str, service: Mapping[str, Any]) -> Iterator[str]:
    if service.get("read_only") is not True and name not in WITHOUT_READ_ONLY_ROOT:
        yield f"{name}: its root file system is not read-only"
    if service.get("cap_drop") != ["ALL"] and name not in WITH_CAPABILITIES:
        yield f"{name}: does not drop all capabilities"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        yield f"{name}: may gain privileges"
    if service.get("privileged") or service.get("network_mode") == "host":
        yield f"{name}: is privileged, or uses the network of the host"
    if name not in {"mongodb", "kafka"} and not re.fullmatch(r"[1-9]\d*:\d+", str(service.get("user"))):
        yield f"{name}: does not run as a user other than root"


def _health(name: str, service: Mapping[str, Any], dockerfile: str) -> Iterator[str]:
    check = service.get("healthcheck", {})
    if name in RUN_ONCE:
        return
    test = check.get("test")
    if not test or test[0] != "CMD":
        yield f"{name}: has no health check in exec form"
    elif name in SETTINGS and test[1:] != _health_command(dockerfile):
        yield f"{name}: its health check is not that of the Dockerfile"


def _health_command(dockerfile: str) -> list[str]:
    command = re.search(r"(?m)^HEALTHCHECK .*CMD (\[.*\])$", dockerfile)
    return list(_parsed(command[1])) if command else []


def _mounts(name: str, service: Mapping[str, Any]) -> Iterator[str]:
    for mount in service.get("volumes", []):
        source, target, *options = mount.split(":")
        if source.startswith(".") and options != ["ro"]:
            yield f"{name}: {source} is not mounted read-only at {target}"
        if source.startswith(".") and not (ROOT / source).exists():
            yield f"{name}: {source} does not exist"


def _ports(name: str, service: Mapping[str, Any]) -> Iterator[str]:
    for port in service.get("ports", []):
        if name in SETTINGS:
            yield f"{name}: publishes {port}; clients reach it through the proxy alone"
        if not port.startswith("127.0.0.1:"):
            yield f"{name}: publishes {port} to other machines"


def _own_services(services: Mapping[str, Any], example: str, dockerfile: str) -> Iterator[str]:
    stages = set(re.findall(r"(?m)^FROM .* AS (\S+)$", dockerfile))
    values = _values(example)
    for name, settings in SETTINGS.items():
        if name not in services:
            yield f"{name} is missing"
            continue
        service = services[name]
        if service.get("build", {}).get("target") not in stages:
            yield f"{name}: its build target is no stage of the Dockerfile"
        environment = service.get("environment", {})
        yield from _settings(name, settings, {key: _filled(value, values) for key, value in environment.items()})
    command = services.get("set-up", {}).get("command", [""])
    if command[0] != "set-up":
        yield f"set-up: runs {shlex.join(command)!r}"


def _values(example: str) -> dict[str, str]:
    return dict(re.findall(r"(?m)^([A-Z_]+)=(.*)$", fill(example)))


def _filled(value: str | None, values: Mapping[str, str]) -> str | None:
    return value and _VARIABLE.sub(lambda found: values.get(found[1]) or found[3] or "", value)


def _settings(name: str, settings: type[ServerSettings], environment: Mapping[str, str | None]) -> Iterator[str]:
    known = {f"KB_{field.upper()}" for field in settings.model_fields}
    for variable in environment.keys() - known - PROVIDER_KEYS:
        yield f"{name}: {variable} is no setting of {settings.__name__}"
    required = {"KB_ENVIRONMENT", *(_OF_MONGODB if settings.uses_mongodb else ())}
    required |= {"KB_KAFKA"} if settings.uses_kafka else set()
    required |= {"KB_API_KEY_PEPPER", "KB_PROVIDER_KEYS", "KB_BASE_URL", "KB_CONSOLE_SECRET"} & known
    for variable in sorted(required - environment.keys()):
        yield f"{name}: {variable} is missing"
    try:
        # What is not named would come from the environment of the tests.
        settings.model_validate(
            {key.removeprefix("KB_").lower(): value for key, value in environment.items() if key in known}
        )
    except ValidationError as error:
        unusable = ", ".join(str(each["loc"][0]) if each["loc"] else each["msg"] for each in error.errors())
        yield f"{name}: {unusable} can't be used"


def _networks(services: Mapping[str, Any]) -> Iterator[str]:
    for name, service in services.items():
        networks = set(service.get("networks", []))
        if name == READS_SOURCES and networks != NETWORKS_OF_RUNNER:
            yield f"{name}: is in {', '.join(sorted(networks))}, where it reaches other services"
        if name != READS_SOURCES and "sources" in networks:
            yield f"{name}: is in the network of the addresses that users name"


def _dependencies(services: Mapping[str, Any]) -> Iterator[str]:
    for name, service in services.items():
        for other in service.get("depends_on", {}):
            if other not in services:
                yield f"{name}: depends on {other}, which does not exist"
            elif not set(service.get("profiles", [])) <= set(services[other].get("profiles", [])):
                yield f"{name}: depends on {other}, which is not in all of its profiles"
