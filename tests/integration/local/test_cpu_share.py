import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from kb_local import cpu_share
from kb_local.child import Child, execute
from kb_local.cpu_share import CpuLimiter, StopContinueLimiter, create_limiter, limit_cpu
from kb_local.server import Server
from tests.waiting import until

SHARE = 0.1
MEASURED_S = 0.6


class BusyLoopServer(Server):
    def _launch(self) -> Child:
        return execute([sys.executable, "-c", "while True: pass"], log=self.log, env=os.environ)

    async def is_ready(self) -> bool:
        return True


@pytest.fixture
async def busy_server(tmp_path: Path) -> AsyncIterator[BusyLoopServer]:
    server = BusyLoopServer("busy_server", port=0, log=tmp_path / "busy_server.log")
    yield server
    await server.kill()


def cpu_s(server: Server) -> float:
    times = psutil.Process(server.pid).cpu_times()
    return float(times.user + times.system)


async def share_of(server: Server) -> float:
    before, began = cpu_s(server), asyncio.get_running_loop().time()
    await asyncio.sleep(MEASURED_S)
    return (cpu_s(server) - before) / (asyncio.get_running_loop().time() - began)


@pytest.mark.parametrize(
    "make", [create_limiter, StopContinueLimiter], ids=["the best there is here", "where no group can be made"]
)
async def test_a_process_gets_its_share_of_a_cpu_and_so_does_the_one_after_it(
    busy_server: BusyLoopServer, make: Callable[[float], CpuLimiter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_share, "create_limiter", make)
    async with limit_cpu(SHARE, lambda: [busy_server]):
        for _ in range(2):
            busy_server.launch()
            await until(lambda: cpu_s(busy_server) > 0)
            # It may have begun with more than its share.
            assert await share_of(busy_server) <= 3 * SHARE
            await busy_server.kill()


async def test_a_process_frozen_from_outside_stays_frozen(
    busy_server: BusyLoopServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_share, "create_limiter", StopContinueLimiter)
    async with limit_cpu(SHARE, lambda: [busy_server]):
        busy_server.launch()
        await until(lambda: cpu_s(busy_server) > 0)
        await busy_server.pause()
        before = cpu_s(busy_server)
        await asyncio.sleep(MEASURED_S)
        assert cpu_s(busy_server) - before <= 0.02
        busy_server.resume()


async def test_a_process_is_let_go_in_the_end(busy_server: BusyLoopServer) -> None:
    busy_server.launch()
    async with limit_cpu(SHARE, lambda: [busy_server]):
        await until(lambda: cpu_s(busy_server) > 0)
    before = cpu_s(busy_server)
    await until(lambda: cpu_s(busy_server) - before > 0.2)
