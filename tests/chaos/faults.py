"""Does to processes and to the provider what a plan says, and makes it good again."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from pymongo.asynchronous.database import AsyncDatabase

from kb_local.ports import NO_TLS
from kb_local.service import Service
from kb_local.stack import Stack
from tests.chaos.clock import Clock
from tests.chaos.expiry import expire_leases_of_runners
from tests.chaos.plan import FaultPlan, Freeze, Join, Kill, KillAt, Misbehave, ProcessFault, RestartBroker
from tests.chaos.quiescence import SLOW_S

RUNNER: Final = "kb_knowledge.runner"


def indexer_names(replicas: int) -> list[str]:
    return ["kb_indexer", *(f"kb_indexer:{number}" for number in range(2, replicas + 1))]


@dataclass(slots=True)
class Faults:
    """Faults of one run. `wrong` lists effects that no fault explains."""

    stack: Stack
    plan: FaultPlan
    clock: Clock
    database: AsyncDatabase[dict[str, Any]]
    upstream_still: asyncio.Lock
    """Held while the broker is down, because publishing is not possible then."""
    broker_restarts: int = 0
    runner_kills: int = 0
    violations: list[str] = field(default_factory=list)

    async def fail_processes(self) -> None:
        for fault in self.plan.process_faults:
            await self.clock.reach(fault.at_s)
            await self._fail(fault)

    async def fail_runner(self) -> None:
        for kill in self.plan.runner_kills:
            await self.clock.reach(kill.at_s)
            if kill.failpoint is not None:
                await self._restart_runner({"KB_FAILPOINT": f"{kill.failpoint}:{kill.nth}"})
                await self.clock.reach(kill.until_s)
            await self._restart_runner({}, at_s=kill.until_s)

    async def fail_provider(self) -> None:
        for fault in self.plan.provider_faults:
            await self.clock.reach(fault.at_s)
            await self._program(fault)
            await self.clock.reach(fault.until_s)
            await self._program(None)

    async def heal(self) -> None:
        """Have everything run that should."""
        await self._program(None)
        for service in self.stack.services.values():
            if service.running:
                await service.wait_ready()
            else:
                self.violations.append(f"{service.name} ended by itself, with status {service.returncode}")
                await service.start()

    async def _fail(self, fault: ProcessFault) -> None:
        match fault:
            case Kill():
                service = self._indexer(fault.replica)
                await service.kill()
                await self.clock.reach(fault.until_s)
                service.launch()
            case KillAt():
                await self._kill_at(fault)
            case Freeze():
                service = self._indexer(fault.replica)
                await service.pause()
                await self.clock.reach(fault.until_s)
                service.resume()
            case Join():
                await self._join(fault)
            case RestartBroker():
                async with self.upstream_still:
                    await self.stack.restart_broker()
                    self.broker_restarts += 1

    async def _restart_runner(self, env: Mapping[str, str], *, at_s: float = 0.0) -> None:
        runner = self.stack.services[RUNNER]
        await runner.kill()
        self.runner_kills += 1
        await self.clock.reach(at_s)
        await expire_leases_of_runners(self.database)
        _launch_with(runner, env)

    async def _kill_at(self, fault: KillAt) -> None:
        service = self._indexer(fault.replica)
        await service.kill()
        _launch_with(service, {"KB_FAILPOINT": f"{fault.failpoint}:{fault.nth}"})
        await self.clock.reach(fault.until_s)
        await service.kill()
        service.launch()

    async def _join(self, fault: Join) -> None:
        joining = indexer_names(self.plan.replicas + 1)[-1]
        await self.stack.start_service(joining)
        await self.clock.reach(fault.until_s)
        if status := await self.stack.services[joining].stop(timeout_s=SLOW_S):
            self.violations.append(f"{joining} left with status {status}")
        del self.stack.services[joining]

    def _indexer(self, replica: int) -> Service:
        return self.stack.services[indexer_names(self.plan.replicas)[replica]]

    async def _program(self, fault: Misbehave | None) -> None:
        await program_provider(self.stack, fault.program if fault else {})


def _launch_with(service: Service, env: Mapping[str, str]) -> None:
    """Launch a service with further settings for this time."""
    usual = service.env
    service.env = {**usual, **env}
    # Not `start`: it may be dead before it is ready, at work on what its predecessor left.
    service.launch()
    service.env = usual


async def program_provider(stack: Stack, program: dict[str, Any]) -> None:
    """Have the model server do this from now on; nothing but its work if the program is empty."""
    address = stack.models_api_base.removesuffix("/v1") + "/admin/hash"
    async with httpx.AsyncClient(trust_env=False, verify=NO_TLS) as model_server:
        (await model_server.put(address, json=program)).raise_for_status()
