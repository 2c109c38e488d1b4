"""The real servers that tests run against: started once per run, at the first test that wants them.

`KB_TEST_MONGO_URI` and `KB_TEST_KAFKA` point the same tests at deployments that exist already, `KB_TEST_BACKEND=docker`
has them started as containers. The header of the run says which ones are used, a quiet run at its end.
"""

import asyncio
import gc
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import structlog
import uvloop
from hypothesis import HealthCheck, settings
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import AutoReconnect
from xdist.scheduler import LoadFileScheduling

from kb_local.broker import Broker
from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.wanted_services import ALL_SERVICES
from kb_local.zygote import PRELOADED, Zygote
from kb_shared.metering.budget import end_of_month
from tests.backend import Backend, BackendKind, UnusableBackend
from tests.documented_problems import check_problems
from tests.waiting import until

# On a busy machine the vector of a query takes longer than a caller would wait, and the answer would be one without it.
os.environ.setdefault("KB_SEARCH_VECTOR_WAIT_S", "120")

# How long an example takes says more about what else the machine is doing. The same examples each time: code that did
# not change must not fail beside a change of something else; `make test-long` tries new ones, and more of them.
UNTIMED: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", UNTIMED, max_examples=50, derandomize=True)
settings.register_profile("new", UNTIMED, max_examples=1_000, print_blob=True)
settings.load_profile("same")

# By default structlog draws the locals of every frame of a traceback, which takes seconds of the CPU.
PLAIN: Final = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], PLAIN])


@dataclass(frozen=True, slots=True)
class RunningMongo:
    uri: str


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    bootstrap: str


MEMORY: Final = Path("/dev/shm")
IN_MEMORY: Final = "kb-tests-"
MIN_MEMORY_BYTES: Final = 8_000_000_000

GC_THRESHOLDS: Final = (50_000, 20, 50)
"""New objects before a collection, and collections before those of older objects: Python's cost a tenth of the CPU."""

WAITING: Final = tuple(f"tests/integration/{folder}" for folder in ("kafka", "local", "mcp", "http", "containers"))
"""Folders whose tests mostly wait."""

ONE_WORKER: Final = (WAITING, ("tests/chaos",), ("tests/e2e",), ("tests/unit",), ("tests/noisy_neighbour",))
"""Folders that one worker runs, in the order in which they begin.

Some share a running system, which the worker stops after the last test. While three workers mostly wait, one computes.
"""

LONG: Final = ("tests/upgrade",)
"""Folders with a file that takes long; begun last, it would keep one worker after the others have ended."""


class FolderOrFileScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each file to one worker, and the folders of each part of `ONE_WORKER` together."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((folders[0] for folders in ONE_WORKER if _is_in(folders, file)), file)


def _is_in(folders: Sequence[str], nodeid: str) -> bool:
    return nodeid.startswith(tuple(f"{folder}/" for folder in folders))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the folders that take a worker longest first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: [not _is_in(folders, item.nodeid) for folders in (*ONE_WORKER, LONG)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FolderOrFileScheduling:
    return FolderOrFileScheduling(config, log)


# Collection imports all modules and creates thousands of tests, and frees nothing: collecting garbage meanwhile takes a
# quarter of its CPU.
gc.disable()


def pytest_collection_finish() -> None:
    """Freeze the imported modules: a garbage collector that scans them takes a twentieth of the CPU."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def pytest_configure() -> None:
    try:
        _backend()
    except UnusableBackend as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header() -> list[str]:
    return _backend().described()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # A quiet run has no header.
    if terminalreporter.verbosity < 0:
        for line in _backend().described():
            terminalreporter.write_line(line)


def _backend() -> Backend:
    return Backend.from_environment(os.environ)


@pytest.fixture(scope="session")
def _asyncio_loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Let tests run in the event loop of the services, which takes less CPU than Python's.

    The hook of pytest-asyncio for it gives each asynchronous test a parameter, and pytest sorts tests by parameters.
    """
    return uvloop.new_event_loop


@pytest.fixture(scope="session", autouse=True)
def documented_problems() -> Iterator[None]:
    """Let each answer with a problem that the OpenAPI document does not list fail."""
    with pytest.MonkeyPatch.context() as patch:
        check_problems(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the stacks of tests and those of the user of this machine from finding each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def server_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def data_folder(server_logs: Path) -> Iterator[Path]:
    """A folder in memory, where there is room for it: most of what tests wait for is a disk that syncs."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MIN_MEMORY_BYTES:
        yield server_logs
        return
    _remove_leftovers()
    folder = MEMORY / f"{IN_MEMORY}{os.getpid()}"
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


def _remove_leftovers() -> None:
    """Remove the folders of runs that were killed."""
    for folder in MEMORY.glob(f"{IN_MEMORY}*"):
        if not Path(f"/proc/{folder.name.removeprefix(IN_MEMORY)}").exists():
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
async def mongod(server_logs: Path, data_folder: Path) -> AsyncIterator[RunningMongo | Mongod]:
    """`.uri` of a plain replica set that is shared by the whole run; a kill would lose acknowledged writes."""
    backend = _backend()
    if backend.mongo_uri is not None:
        yield RunningMongo(backend.mongo_uri)
        return
    if backend.kind is BackendKind.DOCKER:
        from tests import containers  # needs half a second to import

        async with containers.atlas_local() as uri:
            yield RunningMongo(uri)
        return
    # Tests kill clients in the middle of transactions, whose locks then have to go soon.
    server = Mongod(
        data_folder / "mongo",
        port=free_port(),
        log=server_logs / "mongod.log",
        # Tests of kills start a mongod of their own.
        journaled=False,
        # There is room for the data of tests in memory.
        compressed=False,
        # With less, it evicts what the databases of thousands of tests hold all the time.
        cache_gb=2,
        transaction_lifetime_s=5,
        parameters={"enableTestCommands": "1"},
    )
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="session")
async def search_node(
    mongod: RunningMongo | Mongod, server_logs: Path
) -> AsyncIterator[RunningMongo | SearchNodeProcess]:
    """`.uri` of a deployment with Atlas search."""
    if isinstance(mongod, RunningMongo):
        yield mongod
        return
    server = SearchNodeProcess(mongod=mongod.address, port=free_port(), log=server_logs / "search-node.log")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="session")
async def broker(server_logs: Path) -> AsyncIterator[KafkaCluster | Broker]:
    """`.bootstrap` of a Kafka cluster; create topics before producing, named by `topic_prefix`."""
    async with kafka_of(_backend(), server_logs) as kafka:
        yield kafka


@asynccontextmanager
async def kafka_of(backend: Backend, logs: Path) -> AsyncIterator[KafkaCluster | Broker]:
    """Give the Kafka that the backend names; one that is started is stopped at the end."""
    if backend.kafka is not None:
        yield KafkaCluster(backend.kafka)
        return
    if backend.kind is BackendKind.DOCKER:
        from tests import containers  # needs half a second to import

        async with containers.kafka() as bootstrap:
            yield KafkaCluster(bootstrap)
        return
    server = Broker(port=free_port(), log=logs / "broker.log")
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture(scope="session")
async def model_server(server_logs: Path) -> AsyncIterator[ModelServerProcess]:
    server = ModelServerProcess(port=free_port(), log=server_logs / "model-server.log")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="session")
async def zygote(server_logs: Path) -> AsyncIterator[Zygote]:
    """Fork services from a process that has imported litellm and their own modules, which no test edits."""
    services = [f"{package}.bootstrap" for package in ALL_SERVICES]
    server = Zygote(log=server_logs / "zygote.log", preloaded=(*PRELOADED, *services))
    await server.start()
    yield server
    await server.stop()


_drops: Final[set[asyncio.Task[None]]] = set()


def begin_drop(client: AsyncMongoClient[dict[str, Any]], database_name: str) -> None:
    """Drop a database beside the next tests: MongoDB takes a tenth of a second for it, in which it mostly waits."""

    async def drop() -> None:
        # A test that kills the server may come next. Then the database stays, as long as the server's folder does.
        with suppress(AutoReconnect):
            await client.drop_database(database_name)

    _drops.add(asyncio.create_task(drop()))


async def finish_drops() -> None:
    """Wait for all drops that have begun."""
    drops = list(_drops)
    _drops.clear()
    await asyncio.gather(*drops)


@pytest.fixture(scope="session")
async def mongo_client(mongod: RunningMongo | Mongod) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    async with AsyncMongoClient[dict[str, Any]](mongod.uri, tz_aware=True) as client:
        yield client
        await finish_drops()


@pytest.fixture(scope="session")
async def search_client(
    search_node: RunningMongo | SearchNodeProcess,
) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    async with AsyncMongoClient[dict[str, Any]](search_node.uri, tz_aware=True) as client:
        yield client
        await finish_drops()


@pytest.fixture
def database_name() -> str:
    """The name of this test's own database; both fixtures below hand it out, and drop it later."""
    return f"test_{uuid4().hex[:16]}"


@pytest.fixture
async def database(
    mongo_client: AsyncMongoClient[dict[str, Any]], database_name: str
) -> AsyncIterator[AsyncDatabase[dict[str, Any]]]:
    """An empty database on the plain replica set."""
    yield mongo_client[database_name]
    begin_drop(mongo_client, database_name)


@pytest.fixture
async def search_database(
    search_client: AsyncMongoClient[dict[str, Any]], database_name: str
) -> AsyncIterator[AsyncDatabase[dict[str, Any]]]:
    """The same database through the search node."""
    yield search_client[database_name]
    begin_drop(search_client, database_name)


@pytest.fixture(scope="module")
async def within_a_month() -> None:
    """For what is counted by the month: one that is about to end is waited for."""
    now = datetime.now(UTC)
    end = end_of_month(f"{now:%Y-%m}")
    if end - now < timedelta(minutes=1):
        await until(lambda: datetime.now(UTC) > end, what="the next month", every_s=1)


@pytest.fixture
def topic_prefix() -> str:
    """Return the prefix of this test's topics and consumer groups on the broker that all tests share."""
    return f"test-{uuid4().hex[:16]}."
