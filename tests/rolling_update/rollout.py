"""Replaces the replicas of a service in turn, as a Deployment with `maxSurge: 1` and `maxUnavailable: 0` does."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import httpx

from kb_local.ports import NO_TLS
from kb_local.service import Service
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.rolling_update.balancing import ServiceEndpoints
from tests.rolling_update.code_versions import CodeVersion
from tests.rolling_update.loaded_packages import read_loaded_packages
from tests.rolling_update.pod_times import ENDPOINTS_LAG_S, POD_TIMES, REPLICAS, PodTimes, deployment_of

SHARED_PACKAGES: Final = ("kb_contracts", "kb_shared")


class WrongCode(Exception):
    """A process has not imported the version that it should."""


@dataclass(frozen=True, slots=True)
class RunnableVersion:
    """Code of a version, and the zygote that forks its services."""

    code: CodeVersion
    zygote: Zygote


@dataclass(frozen=True, slots=True)
class Replica:
    service: Service
    version: CodeVersion


@dataclass(frozen=True, slots=True)
class EndedReplica:
    name: str
    version: str
    status: int
    """Exit status; negative: number of the signal that killed it."""
    took_s: float
    """From SIGTERM to the end of the process."""

    def problem(self) -> str | None:
        """Return what was wrong with its end."""
        if self.status == 0:
            return None
        return f"{self.name} of {self.version} ended with status {self.status} after {self.took_s} s"


@dataclass(slots=True)
class Rollout:
    """All replicas of one service."""

    stack: Stack
    package: str
    times: PodTimes
    endpoints: ServiceEndpoints = field(default_factory=ServiceEndpoints)
    replicas: list[Replica] = field(default_factory=list)
    ended: list[EndedReplica] = field(default_factory=list)
    kills: bool = False
    """True to end replicas by SIGKILL: a fault that must be noticed."""
    _started: int = 0

    async def scale_up(self, version: RunnableVersion) -> None:
        """Start the replicas of a first version, which may have none."""
        for _ in range(REPLICAS if version.code.has(self.package) else 0):
            await self._start(version)

    async def replace_all(self, version: RunnableVersion) -> None:
        """Start a new replica, end an old one when the new one is ready, and so on until all are new.

        While an old one ends, the next new one starts already. A service that the version before lacks is started; one
        that the new version lacks is ended.
        """
        old = list(self.replicas)
        if not version.code.has(self.package):
            await self.stop_all()
            return
        if not old:
            await self.scale_up(version)
        async with asyncio.TaskGroup() as endings:
            for each in old:
                await self._start(version)
                await asyncio.sleep(self.times.min_ready_s)
                endings.create_task(self._end(each))

    async def stop_all(self) -> None:
        """End all replicas, without callers: no hook is needed."""
        for each in list(self.replicas):
            self.replicas.remove(each)
            self.endpoints.remove(each.service.port)
            await self._stop(each)

    async def _start(self, version: RunnableVersion) -> None:
        self._started += 1
        name = f"{deployment_of(self.package)}-{self._started}"
        service = Service(
            name,
            self.package,
            zygote=version.zygote,
            port=self.stack.ports.reserve(name),
            log=self.stack.home.log(name),
            env=self.stack.environment,
        )
        # The stack ends it if the test fails.
        self.stack.services[name] = service
        await service.start()
        await check_loaded_code(service, version.code)
        self.replicas.append(Replica(service, version.code))
        self.endpoints.add(service.port)

    async def _end(self, replica: Replica) -> None:
        self.replicas.remove(replica)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._remove_endpoint(replica))
            await asyncio.sleep(self.times.pre_stop_s)
            await self._stop(replica)

    async def _remove_endpoint(self, replica: Replica) -> None:
        await asyncio.sleep(ENDPOINTS_LAG_S)
        self.endpoints.remove(replica.service.port)

    async def _stop(self, replica: Replica) -> None:
        began, service = monotonic(), replica.service
        if self.kills:
            await service.kill()
            status = service.returncode or 0
        else:
            status = await service.stop(timeout_s=self.times.grace_s - self.times.pre_stop_s)
        took_s = round(monotonic() - began, 2)
        self.ended.append(EndedReplica(service.name, replica.version.name, status, took_s))


def create_rollouts(
    stack: Stack, packages: Sequence[str], *, times: Mapping[str, PodTimes] = POD_TIMES, kills: bool = False
) -> Mapping[str, Rollout]:
    """Return one rollout for each package, without replicas yet."""
    return {package: Rollout(stack, package, times[package], kills=kills) for package in packages}


async def check_loaded_code(service: Service, version: CodeVersion) -> None:
    """Check that a process runs the code of this version.

    Raises:
        WrongCode: a package of the service was imported from elsewhere, or not at all.
    """
    async with httpx.AsyncClient(timeout=30, trust_env=False, verify=NO_TLS) as http:
        metrics = (await http.get(f"{service.url}/metrics")).raise_for_status().text
    folders = read_loaded_packages(metrics)
    for package in (*SHARED_PACKAGES, service.package.partition(".")[0]):
        if not version.contains(folders.get(package, "")):
            raise WrongCode(f"{service.name} of {version.name} has {package} from {folders.get(package)}")
