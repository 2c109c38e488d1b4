import asyncio
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import AsyncMongoClient

from kb_contracts import topics
from kb_local import progress_deadline
from kb_local import server as server_module
from kb_local.broker import Broker
from kb_local.broker_contents import create_topics
from kb_local.child import Child, execute
from kb_local.errors import ServerDied, ServerNotReady, UnusableServer
from kb_local.log_file import MAX_LOG_BYTES, open_log
from kb_local.mongod import Mongod, check_mongod, mongod_binary, parse_mongod_version
from kb_local.ports import LOOPBACK, free_port
from kb_local.server import Server, ends_within
from kb_shared.kafka_connection.clients import consumer_client, producer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.waiting import DEADLINE_S, until


class Sleeper(Server):
    """Never ready; deaf to SIGTERM where asked."""

    start_timeout_s = 0.3

    def __init__(self, log: Path, program: str = "import time; time.sleep(600)") -> None:
        super().__init__("sleeper", port=0, log=log)
        self._program = program

    def _launch(self) -> Child:
        return execute([sys.executable, "-c", self._program], log=self.log, env=os.environ)

    async def is_ready(self) -> bool:
        return "ready" in self.log_tail()


@pytest.fixture
def own_mongod(tmp_path: Path) -> Mongod:
    return Mongod(tmp_path / "data", port=free_port(), log=tmp_path / "mongod.log")


async def insert_in_transaction(uri: str) -> None:
    async with (
        AsyncMongoClient[dict[str, Any]](uri) as client,
        client.start_session() as session,
        await session.start_transaction(),
    ):
        await client.test.things.insert_one({}, session=session)


async def count(uri: str) -> int:
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        return await client.test.things.count_documents({})


async def test_mongod_keeps_its_data_over_a_kill_a_stop_and_a_new_port(own_mongod: Mongod) -> None:
    await own_mongod.start()
    await insert_in_transaction(own_mongod.uri)
    await own_mongod.kill()
    assert own_mongod.returncode == -signal.SIGKILL
    await own_mongod.start()
    assert await count(own_mongod.uri) == 1
    assert await own_mongod.stop() == 0

    own_mongod.port = free_port()
    await own_mongod.start()
    assert await count(own_mongod.uri) == 1
    await own_mongod.stop()
    assert not psutil.pid_exists(own_mongod.pid)


async def test_the_end_of_a_process_is_noticed_at_once(tmp_path: Path) -> None:
    sleeper = Sleeper(tmp_path / "log")
    sleeper.launch()
    assert not await ends_within(sleeper.pid, 0.01)
    waiting = asyncio.create_task(sleeper.wait_at_most(600))
    os.kill(sleeper.pid, signal.SIGKILL)
    async with asyncio.timeout(DEADLINE_S):
        await waiting
        assert await ends_within(sleeper.pid, 600), "it is no process any longer"
    assert not sleeper.running


async def test_broker_is_ready_when_start_returns_and_gone_when_stop_returns(tmp_path: Path) -> None:
    broker = Broker(port=free_port(), log=tmp_path / "broker.log")
    await broker.start()
    _, writer = await asyncio.open_connection(LOOPBACK, broker.port)
    writer.close()
    await broker.stop()
    assert not psutil.pid_exists(broker.pid)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(LOOPBACK, broker.port)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
async def test_a_killed_broker_leaves_nothing_behind(tmp_path: Path) -> None:
    broker = Broker(port=free_port(), log=tmp_path / "broker.log")
    await broker.start()
    [tansu] = psutil.Process(broker.pid).children()
    await broker.kill()
    await until(lambda: not tansu.is_running() or tansu.status() == psutil.STATUS_ZOMBIE)


async def test_a_broker_that_dies_is_noticed(tmp_path: Path) -> None:
    broker = Broker(port=free_port(), log=tmp_path / "broker.log")
    await broker.start()
    [tansu] = psutil.Process(broker.pid).children()
    tansu.kill()
    assert await broker.wait() == -signal.SIGKILL


async def test_a_consumer_need_not_wait_for_half_of_its_fetch(tmp_path: Path) -> None:
    broker = Broker(port=free_port(), log=tmp_path / "broker.log")
    await broker.start()
    connection = KafkaConnection(broker.bootstrap)
    await create_topics(connection, prefix="")
    consumer = consumer_client(
        connection, topics.KB_EVENTS.name, auto_offset_reset="earliest", fetch_max_wait_ms=600_000
    )
    await consumer.start()
    producer = producer_client(connection)
    await producer.start()
    for number in range(20):
        await producer.send_and_wait(topics.KB_EVENTS.name, str(number).encode(), partition=number % 6)
        assert (await consumer.getone()).value == str(number).encode()
    await producer.stop()
    await consumer.stop()
    assert await broker.stop() == 0


async def test_a_paused_server_answers_again_when_it_is_resumed(own_mongod: Mongod) -> None:
    await own_mongod.start()
    await own_mongod.pause()
    assert not await own_mongod.is_ready()
    own_mongod.resume()
    await until(own_mongod.is_ready)
    await own_mongod.stop()


async def test_a_paused_server_can_still_be_stopped_in_order(own_mongod: Mongod) -> None:
    await own_mongod.start()
    await own_mongod.pause()
    assert await own_mongod.stop() == 0


async def test_a_server_that_dies_at_start_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    server = Sleeper(tmp_path / "x.log", "raise SystemExit('the disk is full')")
    server.start_timeout_s = 60
    with pytest.raises(ServerDied, match=r"exit status 1.*\n.*the disk is full"):
        await server.start()


async def test_a_server_that_never_gets_ready_is_ended(tmp_path: Path) -> None:
    server = Sleeper(tmp_path / "x.log")
    with pytest.raises(ServerNotReady):
        await server.start()
    assert not psutil.pid_exists(server.pid)


async def test_a_slow_start_goes_on_as_long_as_the_process_makes_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    class SlowSleeper(Sleeper):
        async def is_ready(self) -> bool:
            nonlocal looks
            looks += 1
            return looks == 20

        def _cpu_steps(self) -> int:
            return looks

    server = SlowSleeper(tmp_path / "x.log")
    monkeypatch.setattr(progress_deadline, "monotonic", lambda: looks * server.start_timeout_s * 0.9)
    await server.start()
    assert looks == 20
    await server.kill()


async def test_the_cpu_that_a_process_uses_counts_as_progress_and_waiting_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "CPU_STEP_S", 0.3)
    busy = Sleeper(tmp_path / "busy.log", "while True: pass")
    idle = Sleeper(tmp_path / "idle.log", "import time\nwhile True: time.sleep(0.1)")
    for server in (busy, idle):
        server.launch()
    await until(lambda: busy._cpu_steps() >= 2)
    assert idle._cpu_steps() == 0
    for server in (busy, idle):
        await server.kill()


async def test_a_start_that_uses_too_much_cpu_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CPU_STEP_S", 0.02)
    monkeypatch.setattr(server_module, "MOST_CPU_OF_A_START_S", 0.1)
    server = Sleeper(tmp_path / "x.log", "while True: pass")
    with pytest.raises(ServerNotReady, match=r"made no progress for 0\.3 s"):
        await server.start()


@pytest.mark.parametrize("is_there_already", [True, False])
def test_a_log_is_for_its_owner_only(tmp_path: Path, *, is_there_already: bool) -> None:
    log = tmp_path / "x.log"
    if is_there_already:
        log.touch(mode=0o644)
    os.close(open_log(log))
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    server = Sleeper(tmp_path / "x.log")
    server.start_timeout_s = 60
    starting = asyncio.create_task(server.start())
    await asyncio.sleep(0)
    pid = server.pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not psutil.pid_exists(pid)


async def test_a_server_deaf_to_sigterm_is_ended_by_force(tmp_path: Path) -> None:
    server = Sleeper(
        tmp_path / "x.log",
        "from signal import *; signal(SIGTERM, SIG_IGN); print('ready', flush=True); [*iter(pause, 1)]",
    )
    server.start_timeout_s = 60
    await server.start()
    assert await server.stop(timeout_s=0.2) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
async def test_servers_die_with_the_process_that_started_them_even_when_it_is_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio
from pathlib import Path
from kb_local.broker import Broker
from kb_local.ports import free_port
async def main():
    broker = Broker(port=free_port(), log=Path({str(tmp_path / "broker.log")!r}))
    await broker.start()
    print(broker.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    supervisor = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert supervisor.stdout is not None
    broker = psutil.Process(int(await supervisor.stdout.readline()))
    supervisor.kill()
    await supervisor.wait()

    def is_gone() -> bool:
        return not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE

    await until(is_gone)


async def test_a_log_that_has_grown_large_is_put_aside_at_start(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    with log.open("wb") as file:
        file.truncate(MAX_LOG_BYTES + 1)
    broker = Broker(port=free_port(), log=log)
    await broker.start()
    await broker.stop()
    assert log.stat().st_size < MAX_LOG_BYTES
    assert (tmp_path / "broker.log.1").stat().st_size == MAX_LOG_BYTES + 1


async def test_the_installed_mongod_is_new_enough() -> None:
    assert (await check_mongod(mongod_binary())).startswith("6.")


@pytest.mark.parametrize(
    ("output", "errors", "remedy"),
    [
        ("db version v5.0.14", "", "6.0 or newer"),
        ("", "error while loading shared libraries: libcurl.so.4: cannot open shared object file", "libcurl4"),
        ("Python 3.11", "", "KB_MONGOD"),
    ],
)
def test_a_mongod_that_cannot_be_used_is_refused_with_what_to_do(output: str, errors: str, remedy: str) -> None:
    with pytest.raises(UnusableServer) as refusal:
        parse_mongod_version(output, errors, binary=Path("/opt/mongod"))
    assert remedy in refusal.value.remedy


async def test_a_mongod_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnusableServer, match="No such file"):
        await check_mongod(Path("/nonexistent/mongod"))


async def test_each_test_gets_an_empty_database_with_transactions(database: Any) -> None:
    async with database.client.start_session() as session, await session.start_transaction():
        await database.things.insert_one({}, session=session)
    assert await database.things.count_documents({}) == 1
