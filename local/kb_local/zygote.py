import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kb_local.child import SINGLE_THREADED, Child, execute
from kb_local.errors import ServerDied, ServerNotReady
from kb_local.server import Server

# Third parties that cost time and that services need to be ready; litellm is imported by the first call that needs it.
PRELOADED = (
    "aiohttp",
    "aiokafka",
    "chonkie",
    "fastapi",
    "httpx",
    "jinja2",
    "numpy",
    "prometheus_client",
    "pydantic_settings",
    "pymongo.asynchronous.mongo_client",
    "stamina",
    "starlette.applications",
    "structlog",
    "tiktoken",
    "uvicorn",
)
# What most services share of this system, over all modules that it imports itself. A child whose sources were edited
# since is executed again from its sources.
SHARED = (
    "kb_contracts.api.documents",
    "kb_contracts.api.knowledge_entries",
    "kb_contracts.api.memberships",
    "kb_contracts.api.runs",
    "kb_contracts.api.search",
    "kb_shared.embedding.bootstrap",
    "kb_shared.http.exchange",
    "kb_shared.http.server",
    "kb_shared.kafka.producer",
    "kb_shared.mongo.index_jobs",
    "kb_shared.service.process",
)
FORK_TIMEOUT_S = 60.0

IMPORT_ENVIRONMENT = {
    **SINGLE_THREADED,
    # Without it litellm asks GitHub for its price list while it is imported.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TOKENIZERS_PARALLELISM": "false",
}


class ForkedChild:
    """A service that the zygote forked; satisfies `Child`."""

    def __init__(self, pid: int, zygote: "Zygote") -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._zygote = zygote

    def poll(self) -> int | None:
        self._zygote.read_events()
        return self.returncode

    def send_signal(self, signal_number: int, /) -> None:
        # Through the zygote, which knows whether the pid is still this child's.
        if self.poll() is None:
            self._zygote.send({"signal": [self.pid, signal_number]})


class Zygote(Server):
    """Forks services from a process that has imported their heavy third parties already, in milliseconds."""

    def __init__(
        self, *, log: Path, preloaded: Sequence[str] | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("zygote", port=0, log=log)
        self._env = dict(env or {})
        self._preloaded = (*PRELOADED, *SHARED) if preloaded is None else preloaded
        self._connection: socket.socket | None = None
        self._inbox = b""
        self._is_ready = False
        self._forked: list[ForkedChild] = []
        self._alive: dict[int, ForkedChild] = {}

    def _launch(self) -> Child:
        # Processes that a crashed run forked are gone, even if they were not polled since.
        self._close()
        ours, theirs = socket.socketpair()
        self._connection, self._inbox, self._is_ready = ours, b"", False
        with theirs:
            return execute(
                [sys.executable, "-m", "kb_local.zygote_process", str(theirs.fileno()), *self._preloaded],
                log=self.log,
                env={**os.environ, **IMPORT_ENVIRONMENT, **self._env},
                pass_fds=[theirs.fileno()],
            )

    async def is_ready(self) -> bool:
        self.read_events()
        return self._is_ready

    async def stop(self, *, timeout_s: float = 20.0) -> int:
        status = await super().stop(timeout_s=timeout_s)
        self._close()
        return status

    async def kill(self) -> None:
        await super().kill()
        self._close()

    def fork(self, module: str, *, arguments: Sequence[str] = (), env: Mapping[str, str], log: Path) -> ForkedChild:
        """Start `main()` of `module` in a new process with exactly this environment; blocks for milliseconds.

        Raises:
            ServerDied: the zygote is gone, or the system has no room for another process.
            ServerNotReady: it does not answer.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        environment = {**env, **IMPORT_ENVIRONMENT}
        job = {"module": module, "arguments": list(arguments), "env": environment, "log": str(log)}
        self.send({"fork": job})
        while not self._forked:
            self._wait_for_message()
        return self._forked.pop()

    def send(self, message: dict[str, Any]) -> None:
        """Send a request to the zygote process; `zygote_process` lists them."""
        if self._connection is None:
            raise self._died()
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            raise self._died() from None

    def _wait_for_message(self) -> None:
        if self._connection is None:
            raise self._died()
        readable, _, _ = select.select([self._connection], [], [], FORK_TIMEOUT_S)
        if not readable:
            raise ServerNotReady("the zygote does not fork", remedy=f"read {self.log}")
        self.read_events()

    def read_events(self) -> None:
        """Take in what the zygote has sent so far."""
        while self._connection is not None:
            try:
                data = self._connection.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data = b""
            if not data:
                self._close()
                return
            *lines, self._inbox = (self._inbox + data).split(b"\n")
            for line in lines:
                self._handle_message(json.loads(line))

    def _handle_message(self, message: dict[str, Any]) -> None:
        match message:
            case {"ready": _}:
                self._is_ready = True
            case {"forked": pid}:
                self._alive[pid] = ForkedChild(pid, self)
                self._forked.append(self._alive[pid])
            case {"failed": reason}:
                raise ServerDied(f"the zygote cannot fork: {reason}", remedy="end processes of this user and try again")
            case {"exited": [pid, status]}:
                self._alive.pop(pid).returncode = status

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._is_ready = False
        # Its children are killed with it.
        for child in self._alive.values():
            child.returncode = -signal.SIGKILL
        self._alive.clear()
