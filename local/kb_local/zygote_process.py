"""The process that services and the gateway are forked from: `python -m kb_local.zygote_process SOCKET_FD MODULE...`.

It imports the modules, then forks on request: CPU and memory of the imports are paid once for all services of a stack,
and once for all tests of a run. It has one thread and no event loop, because a fork
copies only the thread that calls it, with all locks as they stand.

Each line on the socket is one JSON object. In: `{"fork": {"module", "arguments", "env", "log"}}`,
`{"signal": [pid, number]}`. Out: `{"ready": [modules that failed to import]}`, `{"forked": pid}` or
`{"failed": reason}`, `{"exited": [pid, status]}`. When the socket closes it ends, and its children with it.
"""

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb_local.log_file import open_log
from kb_local.parent_death_signal import request_parent_death_signal, set_process_name

MAX_READ_BYTES = 65536
HANDLED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """Program of a forked child: `main()` of a module, with these arguments, this environment and log file."""

    module: str
    arguments: list[str]
    env: dict[str, str]
    log: str

    def enter(self, *, parent_pid: int) -> None:
        """Make this fresh fork look like a process that was executed."""
        request_parent_death_signal(parent_pid)
        set_process_name(self.module.partition(".")[0])
        signal.set_wakeup_fd(-1)
        for number in HANDLED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
        os.environ.clear()
        os.environ.update(self.env)
        sys.argv = [self.module, *self.arguments]
        redirect_output(self.log)

    def run(self, sources: "ImportedFiles") -> None:
        if sources.were_edited():
            os.execv(sys.executable, [sys.executable, "-m", self.module, *self.arguments])  # noqa: S606  # of this file
        importlib.import_module(self.module).main()


class ImportedFiles:
    """The files of this system that were imported, as they were then."""

    def __init__(self) -> None:
        files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("kb_")]
        self._written = {file: _written_at(file) for file in files if file is not None}

    def were_edited(self) -> bool:
        """Say whether a file has changed since: who restarts a service after an edit expects the new code."""
        return any(_written_at(file) != before for file, before in self._written.items())


def _written_at(file: str) -> int | None:
    try:
        return Path(file).stat().st_mtime_ns
    except FileNotFoundError:
        return None


class Forker:
    """Forks jobs, passes signals on, and reports which child has ended how."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._wakeup, self._wakeup_writer = socket.socketpair()
        self._children: set[int] = set()
        self._inbox = b""
        self._stopping = False

    def serve(self) -> ForkRequest | None:
        """Work until the other side closes or SIGTERM; return a job in a forked child and None in the zygote itself."""
        with self._listening() as selector:
            while not self._stopping:
                for key, _ in selector.select():
                    if key.fileobj is self._wakeup:
                        self._take_signals()
                    elif (job := self._take_requests()) is not None:
                        return job
            self._end_children()
            return None

    @contextlib.contextmanager
    def _listening(self) -> Iterator[selectors.BaseSelector]:
        self._wakeup_writer.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)
        for number in HANDLED_SIGNALS:
            signal.signal(number, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(self._wakeup, selectors.EVENT_READ)
            yield selector
        # In the child as well: nothing of the zygote stays open there.
        for end in (self._connection, self._wakeup, self._wakeup_writer):
            end.close()

    def _take_signals(self) -> None:
        if signal.SIGTERM in self._wakeup.recv(MAX_READ_BYTES):
            self._stopping = True
        # Signals of the same kind are merged: ask for each child.
        for pid in list(self._children):
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if reaped:
                self._children.discard(pid)
                self.send({"exited": [pid, os.waitstatus_to_exitcode(status)]})

    def _take_requests(self) -> ForkRequest | None:
        """Do what was asked; return the job in a forked child."""
        try:
            data = self._connection.recv(MAX_READ_BYTES)
        except ConnectionResetError:
            data = b""
        self._stopping = self._stopping or not data
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        for line in lines:
            if (job := self._answer(json.loads(line))) is not None:
                return job
        return None

    def _answer(self, request: dict[str, Any]) -> ForkRequest | None:
        if "fork" in request:
            return self._fork(ForkRequest(**request["fork"]))
        pid, number = request["signal"]
        # A reaped pid may belong to another process now.
        if pid in self._children:
            os.kill(pid, number)
        return None

    def _fork(self, job: ForkRequest) -> ForkRequest | None:
        zygote_pid = os.getpid()
        # A signal for the child must not reach the handlers, and the wake-up socket, that it still shares with us.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
        try:
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
            self.send({"failed": str(error)})
            return None
        if pid == 0:
            job.enter(parent_pid=zygote_pid)
            return job
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
        self._children.add(pid)
        self.send({"forked": pid})
        return None

    def _end_children(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)

    def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")


def redirect_output(log: str) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    target = open_log(Path(log))
    os.dup2(target, sys.stdout.fileno())
    os.dup2(target, sys.stderr.fileno())
    os.close(target)


def preload(modules: Sequence[str]) -> list[str]:
    """Import the modules; return those that failed, which each service will then report by itself."""
    failed = []
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001  # a broken service must not take the others with it
            print(f"cannot preload {module}: {error!r}", file=sys.stderr, flush=True)
            failed.append(module)
    return failed


def check_single_threaded() -> None:
    threads = [thread.name for thread in threading.enumerate()]
    if sys.platform == "linux" and (tasks := len(list(Path("/proc/self/task").iterdir()))) != 1:
        raise SystemExit(f"{tasks} threads run after the imports ({threads}): forking would be unsafe")


def main() -> None:
    forker = Forker(socket.socket(fileno=int(sys.argv[1])))
    failed = preload(sys.argv[2:])
    check_single_threaded()
    sources = ImportedFiles()
    # Existing objects are excluded from collection, so that a collection in a child does not copy all pages.
    gc.collect()
    gc.freeze()
    forker.send({"ready": failed})
    if (job := forker.serve()) is not None:
        job.run(sources)


if __name__ == "__main__":
    main()
