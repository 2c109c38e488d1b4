"""Checks whether this machine can run the stack; each check has a remedy."""

import asyncio
import ctypes
import platform
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from kb_local.broker import tansu_binary
from kb_local.deployment import inspect_mongo
from kb_local.errors import LocalStackError, UnfitMachine
from kb_local.model_server import pinned_files
from kb_local.mongod import check_mongod, mongod_binary
from kb_local.monitoring import is_observed
from kb_local.monitoring_programs import MonitoringProgram, monitoring_program, version_of_program
from kb_local.ports import check_free, parse_port
from kb_local.server import accepts_connections
from kb_local.state import Home, StackState, home_of
from kb_local.wanted_services import wanted_services
from kb_shared.embedding.models import LOCAL_MODELS
from kb_shared.kafka_connection.codecs import find_unreadable_codecs

MIN_FREE_DISK_GB = 2.0
LEAST_FREE_DISK_GB = 0.5
"""Space that mongod reserves for its journal before it has stored anything."""
MIN_MEMORY_GB = 1.5
GB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    ok: bool
    found: str
    remedy: str = ""
    is_needed: bool = True
    """True if nothing can be started as long as the check fails."""


async def require_fit(environment: Mapping[str, str]) -> list[Check]:
    """Run all checks; return those that failed although a start may succeed.

    Raises:
        UnfitMachine: others failed.
    """
    failed = [check for check in await examine(environment) if not check.ok]
    if needed := [check for check in failed if check.is_needed]:
        raise UnfitMachine([(f"{check.name}: {check.found}", check.remedy) for check in needed])
    return failed


async def examine(environment: Mapping[str, str]) -> list[Check]:
    """Run all checks that apply to the stack that `environment` describes."""
    home = home_of(environment)
    checks = [check_python(), check_platform(), check_folder(home), check_disk(home), check_memory(), check_codecs()]
    if uri := environment.get("KB_MONGO_URI"):
        checks.append(await _outcome("KB_MONGO_URI", lambda: _describe_mongo(uri)))
    else:
        checks.extend(check_libraries(bundled="KB_MONGOD" not in environment))
        checks.append(await _outcome("mongod", _describe_mongod))
    if kafka := environment.get("KB_KAFKA"):
        checks.append(await check_kafka(kafka))
    else:
        checks.append(await _outcome("broker", _describe_broker))
    if "KB_LOCAL_MODELS_API_BASE" not in environment:
        checks.append(await _outcome("models", _describe_models))
    if environment.get("KB_LOCAL_SERVICES"):
        checks.append(await _outcome("KB_LOCAL_SERVICES", lambda: _describe_services(environment)))
    if is_observed(environment):
        checks.append(await _outcome("prometheus", lambda: _describe_monitoring_program("prometheus")))
        checks.append(await _outcome("alertmanager", lambda: _describe_monitoring_program("alertmanager")))
    # Other ports are chosen automatically if they are taken.
    if (port := environment.get("KB_PORT")) and not _is_running(home):
        checks.append(await _outcome("KB_PORT", lambda: _describe_port(port)))
    return checks


def check_python() -> Check:
    return Check(
        name="python",
        ok=sys.version_info >= (3, 11),
        found=platform.python_version(),
        remedy="use Python 3.11 or newer",
    )


def check_platform() -> Check:
    system, machine = platform.system(), platform.machine()
    known = system == "Linux" and machine in {"x86_64", "aarch64"}
    note = " (not verified on macOS)" if system == "Darwin" else ""
    return Check(
        name="platform",
        ok=known or system == "Darwin",
        found=f"{system} {machine}{note}",
        remedy="no mongod is bundled for this platform: use your own MongoDB and Kafka (KB_MONGO_URI, KB_KAFKA)",
    )


def check_folder(home: Home) -> Check:
    try:
        home.check_usable()
        found = f"{home.folder}, {_describe_state(home, home.read_state())}"
    except LocalStackError as error:
        return Check(name="folder", ok=False, found=error.problem, remedy=error.remedy)
    return Check(name="folder", ok=True, found=found)


def _describe_state(home: Home, state: StackState) -> str:
    if home.is_locked():
        return f"used by a running stack ({state.phase})"
    return "not in use"


def _is_running(home: Home) -> bool:
    try:
        return home.is_locked()
    except LocalStackError:
        # The check of the folder reports it.
        return False


def check_disk(home: Home) -> Check:
    free_gb = _free_bytes(home.folder) / GB
    return Check(
        name="disk",
        ok=free_gb >= MIN_FREE_DISK_GB,
        found=f"{free_gb:.1f} GB free",
        remedy=f"free {MIN_FREE_DISK_GB:.0f} GB, or choose another folder with KB_HOME",
        is_needed=free_gb < LEAST_FREE_DISK_GB,
    )


def _free_bytes(folder: Path) -> int:
    """Return the free space of the file system in which `folder` is or will be."""
    try:
        return shutil.disk_usage(folder).free
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return _free_bytes(folder.parent)


def check_memory() -> Check:
    available_gb = psutil.virtual_memory().available / GB
    return Check(
        name="memory",
        ok=available_gb >= MIN_MEMORY_GB,
        found=f"{available_gb:.1f} GB available",
        remedy=f"the stack needs about {MIN_MEMORY_GB} GB: close other programs",
        is_needed=False,
    )


def check_codecs() -> Check:
    """Check whether consumers can read records of all codecs of Kafka."""
    unreadable = find_unreadable_codecs()
    return Check(
        name="codecs",
        ok=not unreadable,
        found=f"can't read {', '.join(unreadable)}" if unreadable else "gzip, snappy, lz4 and zstd can be read",
        remedy="install cramjam: in the checkout, `make install`",
    )


def check_libraries(*, bundled: bool, load: Callable[[str], object] = ctypes.CDLL) -> Iterator[Check]:
    """Look for the libraries that the bundled mongod needs and that slim systems lack."""
    if not bundled or sys.platform != "linux":
        return
    for library, package in (("libcurl.so.4", "libcurl4"), ("libcrypto.so.3", "libssl3")):
        try:
            load(library)
        except OSError:
            yield Check(name=library, ok=False, found="missing", remedy=f"apt-get install {package}")
        else:
            yield Check(name=library, ok=True, found="present")


async def check_kafka(bootstrap: str) -> Check:
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    reachable = port.isdecimal() and await accepts_connections(host, int(port))
    return Check(
        name="KB_KAFKA",
        ok=reachable,
        found=f"{bootstrap} {'answers' if reachable else 'does not answer'}",
        remedy="set KB_KAFKA to host:port of a broker, or unset it to start a local broker",
    )


async def _outcome(name: str, describe: Callable[[], Awaitable[str]]) -> Check:
    """Return a check that passes with what `describe` returns, or fails with the error that it raises."""
    try:
        found = await describe()
    except LocalStackError as error:
        return Check(name=name, ok=False, found=error.problem, remedy=error.remedy)
    return Check(name=name, ok=True, found=found)


async def _describe_mongod() -> str:
    binary = mongod_binary()
    return f"{await check_mongod(binary)} ({_short(binary)})"


async def _describe_mongo(uri: str) -> str:
    deployment = await inspect_mongo(uri)
    return "has Atlas Search" if deployment.has_search else "replica set without Atlas Search; a search node is added"


async def _describe_services(environment: Mapping[str, str]) -> str:
    return ", ".join(wanted_services(environment))


async def _describe_port(wanted: str) -> str:
    port = parse_port(wanted)
    check_free(port)
    return f"{port} is free"


async def _describe_broker() -> str:
    return _short(tansu_binary())


async def _describe_monitoring_program(name: MonitoringProgram) -> str:
    return f"{await asyncio.to_thread(version_of_program, name)} ({_short(monitoring_program(name))})"


async def _describe_models() -> str:
    for file in pinned_files.ALL:
        file.locate()
    return f"{', '.join(LOCAL_MODELS)}: checksums match"


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
