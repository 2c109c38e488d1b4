"""Keeps a stack running: restarts crashed processes, reports the state, stops everything in order.

`python -m kb_local.supervisor` runs one in the folder of `KB_HOME` until SIGTERM or Ctrl-C.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psutil
import structlog

from kb_local.child import describe_exit
from kb_local.errors import LocalStackError, UnusableServer
from kb_local.monitoring import MonitoringOptions, is_observed
from kb_local.ports import LOOPBACK, Ports, parse_port
from kb_local.python_server import GatewayProcess
from kb_local.running_stacks import registered, running_stacks
from kb_local.server import Server, poll_until
from kb_local.service import Service
from kb_local.stack import DEFAULT_DATABASE, PRODUCERS, Stack
from kb_local.state import (
    Home,
    ProcessCondition,
    ProcessState,
    StackPhase,
    StackProblem,
    StackState,
    find_process,
    home_of,
)
from kb_local.wanted_services import wanted_services
from kb_shared.kafka_connection.connection import KafkaConnection, UnusableKafkaConnection
from kb_shared.observability import logs

log = structlog.get_logger()

STARTING_INTERVAL_S = 0.2
"""Pause between two looks at processes that start or stop."""
REPORT_INTERVAL_S = 1.0
PROBE_INTERVAL_S = 20.0
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
STABLE_AFTER_S = 60.0

# They configure the launch, or the stack sets them itself; they are not passed on to the services.
LAUNCH_SETTINGS = frozenset(
    {
        "KB_API_KEY_PEPPER",
        "KB_BOOTSTRAP_ADMIN_KEY",
        "KB_BOOTSTRAP_ORGANIZATION",
        "KB_HOME",
        "KB_HTTP_HOST",
        "KB_HTTP_PORT",
        "KB_KAFKA",
        "KB_LOCAL_OBSERVE",
        "KB_LOCAL_SERVICES",
        "KB_MONGOD",
        "KB_MONGO_URI",
        "KB_PORT",
    }
)


@dataclass(slots=True)
class RestartHistory:
    """Number of restarts of one process, and its last exit."""

    restarts: int = 0
    last_exit: str | None = None
    responds: bool = True


def backoff_s(failures: int) -> float:
    """Return how long to wait before the next start after so many in a row that did not last."""
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failures, 10))


class Supervisor:
    """Runs one stack from start to stop."""

    def __init__(
        self,
        stack: Stack,
        *,
        on_change: Callable[[StackState], None],
        has_folder: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare to run a stack that has not been started.

        Args:
            stack: what to run.
            on_change: called with the state whenever it has changed, and again while it raises an `OSError`.
            has_folder: says whether the folder of the stack is still there; without it the stack ends.
        """
        self._stack = stack
        self._on_change = on_change
        self._has_folder = has_folder
        self._phase: StackPhase = "starting"
        self._failure: StackProblem | None = None
        self._histories: dict[str, RestartHistory] = {}
        self._broker_is_filled = asyncio.Event()
        self._last_state: StackState | None = None
        self._report_failed = False
        self._started_at = psutil.Process().create_time()

    async def run(self, stop: asyncio.Event) -> None:
        """Start the stack, keep it running until `stop` is set, and stop it.

        Raises:
            LocalStackError: the stack could not be started.
        """
        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(self._report_forever(stop))
            try:
                await self._run_until(stop)
            except LocalStackError as error:
                self._phase, self._failure = "failed", StackProblem(problem=error.problem, remedy=error.remedy)
            finally:
                reporting.cancel()
        self._report()
        if self._failure is not None:
            raise LocalStackError(self._failure.problem, remedy=self._failure.remedy)

    async def _run_until(self, stop: asyncio.Event) -> None:
        starting = asyncio.ensure_future(self._stack.start())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():
                await starting
                await self._keep_all_running(stopping)
        finally:
            self._enter("stopping")
            stopping.cancel()
            # Cancelled, the start stops what it has started so far.
            starting.cancel()
            await asyncio.wait({starting})
        await self._stack.stop()
        self._phase = "stopped"

    async def _keep_all_running(self, stopping: asyncio.Future[Any]) -> None:
        self._enter("ready")
        self._broker_is_filled.set()
        restarting = [asyncio.ensure_future(self._keep_running(server)) for server in self._stack.servers]
        await stopping
        self._enter("stopping")
        for task in restarting:
            task.cancel()
        await asyncio.gather(*restarting, return_exceptions=True)

    async def _keep_running(self, server: Server) -> None:
        """Restart one server whenever it crashes, after a pause that grows while it keeps crashing."""
        history = self._history(server)
        failures = 0
        while True:
            began = time.monotonic()
            await self._watch_until_crash(server, history)
            failures = 0 if time.monotonic() - began > STABLE_AFTER_S else failures + 1
            history.last_exit = describe_exit(server.returncode or 0)
            self._report()
            await asyncio.sleep(backoff_s(failures - 1))
            # It may have ended because its folder was deleted, which a start would make again.
            while not self._has_folder() or not await self._restart(server):
                failures += 1
                await asyncio.sleep(backoff_s(failures))
            history.restarts += 1
            self._report()

    async def _watch_until_crash(self, server: Server, history: RestartHistory) -> None:
        while not server.crashed:
            if server.running:
                history.responds = await server.is_ready()
                await server.wait_at_most(PROBE_INTERVAL_S)
            else:
                await asyncio.sleep(STARTING_INTERVAL_S)

    async def _restart(self, server: Server) -> bool:
        """Start a server that crashed; return whether it is ready again."""
        try:
            if server is self._stack.broker:
                await self._recover_broker()
            elif isinstance(server, Service | GatewayProcess):
                await self._restart_forked(server)
            else:
                await server.start()
        except Exception as error:  # whatever it was, the next try comes
            reason = str(error) if isinstance(error, LocalStackError) else None
            log.exception("server.restart_failed", name=server.name, reason=reason)
            return False
        return True

    async def _recover_broker(self) -> None:
        self._broker_is_filled.clear()
        await self._stack.recover_broker()
        self._broker_is_filled.set()

    async def _restart_forked(self, server: Service | GatewayProcess) -> None:
        if isinstance(server, Service) and server.package in PRODUCERS:
            await self._broker_is_filled.wait()
        await poll_until(self._stack.can_fork, timeout_s=server.start_timeout_s)
        # The recovery of the broker also starts producers, and may have done so already.
        if not server.running:
            await server.start()

    def _enter(self, phase: StackPhase) -> None:
        self._phase = phase
        self._report()

    async def _report_forever(self, stop: asyncio.Event) -> None:
        while True:
            self._report()
            if not stop.is_set() and not self._has_folder():
                log.warning("folder.deleted", folder=str(self._stack.home.folder))
                stop.set()
            await asyncio.sleep(REPORT_INTERVAL_S if self._phase == "ready" else STARTING_INTERVAL_S)

    def _report(self) -> None:
        state = self._state()
        if state == self._last_state:
            return
        try:
            self._on_change(state)
        except OSError as error:
            # The processes don't need the state file, so they continue; the state is written as soon as possible.
            if not self._report_failed:
                log.warning("state.write_failed", reason=os.strerror(error.errno or 0), remedy="make room in KB_HOME")
            self._report_failed = True
            return
        self._last_state, self._report_failed = state, False

    def _state(self) -> StackState:
        is_ready, monitoring = self._phase == "ready", self._stack.monitoring
        return StackState(
            phase=self._phase,
            supervisor_pid=os.getpid(),
            supervisor_started_at=self._started_at,
            base_url=self._stack.base_url if is_ready else None,
            prometheus_url=monitoring.prometheus.url if monitoring is not None and is_ready else None,
            alertmanager_url=monitoring.alertmanager.url if monitoring is not None and is_ready else None,
            ports=self._stack.ports.remembered,
            processes=[self._process_state(server) for server in self._stack.servers],
            failure=self._failure,
        )

    def _process_state(self, server: Server) -> ProcessState:
        history = self._history(server)
        return ProcessState(
            name=server.name,
            pid=server.pid if server.running else None,
            started_at=server.started_at,
            port=server.port,
            condition=_condition(server, history),
            restarts=history.restarts,
            last_exit=history.last_exit,
            log=str(server.log),
        )

    def _history(self, server: Server) -> RestartHistory:
        return self._histories.setdefault(server.name, RestartHistory())


def _condition(server: Server, history: RestartHistory) -> ProcessCondition:
    if server.crashed:
        return "crashed"
    if not server.running:
        return "stopped"
    if server.starting:
        return "starting"
    return "ready" if history.responds else "not ready"


def make_stack(environment: Mapping[str, str]) -> Stack:
    """Return the stack of `kb up` as the environment describes it, on the ports it had last time.

    Raises:
        LocalStackError: the folder, the port, a service or the Kafka connection that was asked for cannot be used.
    """
    home = home_of(environment)
    home.prepare()
    ports = Ports(home.read_state().ports)
    environment = _without_own_broker(environment, ports)
    _check_kafka_connection(environment)
    if wanted := environment.get("KB_PORT"):
        ports.reserve_exactly("gateway", parse_port(wanted))
    return Stack(
        home.folder,
        services=wanted_services(environment),
        env={
            name: value
            for name, value in environment.items()
            if name.startswith("KB_") and name not in LAUNCH_SETTINGS and not name.startswith("KB_TEST_")
        },
        mongo_uri=environment.get("KB_MONGO_URI"),
        kafka=environment.get("KB_KAFKA"),
        models_api_base=environment.get("KB_LOCAL_MODELS_API_BASE"),
        database=environment.get("KB_MONGO_DATABASE", DEFAULT_DATABASE),
        topic_prefix=environment.get("KB_KAFKA_TOPIC_PREFIX", ""),
        ports=ports,
        monitoring=MonitoringOptions() if is_observed(environment) else None,
    )


def _without_own_broker(environment: Mapping[str, str], ports: Ports) -> Mapping[str, str]:
    """Take away a `KB_KAFKA` that `kb up` has printed for publishers: it names the broker that is to be started.

    Raises:
        UnusableServer: it names that of another stack.
    """
    given = environment.get("KB_KAFKA")
    if given is None or given == f"{LOOPBACK}:{ports.remembered.get('broker')}":
        return {name: value for name, value in environment.items() if name != "KB_KAFKA"}
    for each in running_stacks(environment):
        broker = Home(each.folder).read_state().ports.get("broker")
        if given == f"{LOOPBACK}:{broker}" and not environment.get("KB_KAFKA_TOPIC_PREFIX"):
            raise UnusableServer(
                f"KB_KAFKA is the broker of the stack in {each.folder}",
                remedy="unset KB_KAFKA; or set KB_KAFKA_TOPIC_PREFIX, if the stacks are to share it",
            )
    return environment


def _check_kafka_connection(environment: Mapping[str, str]) -> None:
    try:
        connection = KafkaConnection.from_environment(environment)
        connection.check_files()
    except UnusableKafkaConnection as error:
        raise UnusableServer(
            str(error), remedy="docs/how-to/connect-to-kafka.md has an example of each mechanism"
        ) from error
    if not environment.get("KB_KAFKA") and connection.security_protocol != "PLAINTEXT":
        raise UnusableServer(
            f"the local broker has no {connection.security_protocol}",
            remedy="name a cluster with KB_KAFKA, or unset KB_KAFKA_SECURITY_PROTOCOL and what belongs to it",
        )


async def supervise(environment: Mapping[str, str], *, on_change: Callable[[StackState], None]) -> None:
    """Run the stack of `environment` until SIGTERM, SIGINT or SIGHUP.

    Raises:
        LocalStackError: another supervisor has the folder, or the stack cannot be started.
    """
    home = home_of(environment)
    home.prepare()
    with home.locked() as has_folder, _found_by_commands(home, environment):
        end_leftovers(home)

        def write_and_report(state: StackState) -> None:
            # The folder of a stack that has lost its own may be another one's by now.
            if has_folder():
                home.write_state(state)
            on_change(state)

        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            supervisor = Supervisor(make_stack(environment), on_change=write_and_report, has_folder=has_folder)
        except LocalStackError as error:
            # The state is the one of the run before, and the command that waits for this one looks for its pid.
            ours = {"supervisor_pid": os.getpid(), "supervisor_started_at": psutil.Process().create_time()}
            failure = StackProblem(problem=error.problem, remedy=error.remedy)
            write_and_report(home.read_state().model_copy(update={**ours, "phase": "failed", "failure": failure}))
            raise
        await supervisor.run(stop)


@contextlib.contextmanager
def _found_by_commands(home: Home, environment: Mapping[str, str]) -> Iterator[None]:
    """Register the stack of this process; without a state directory it works, and is found in its folder only."""
    with contextlib.ExitStack() as registration:
        try:
            registration.enter_context(registered(home, environment))
        except OSError as error:
            log.warning("stack.not_registered", reason=str(error), remedy="make the state directory writable")
        yield


def end_leftovers(home: Home) -> None:
    """Kill processes that a killed supervisor left behind, where the system did not do it (macOS)."""
    for recorded in home.read_state().processes:
        process = find_process(recorded.pid, recorded.started_at)
        if process is not None:
            process.kill()
            process.wait(timeout=10)


def main() -> None:
    logs.configure("supervisor", "WARNING")
    try:
        asyncio.run(supervise(os.environ, on_change=lambda _: None))
    except LocalStackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
