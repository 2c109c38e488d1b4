"""As much of the Docker Engine API as testcontainers calls. Its containers are servers that run already."""

import io
import json
import re
import socket
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kb_local.ports import LOOPBACK

_STDOUT = b"\x01\x00\x00\x00"


@dataclass(slots=True)
class FakeContainer:
    """Container that was created, and its description by the engine."""

    image: str
    asked: Mapping[str, Any]
    port: int
    """Port of the host for the only port that the container exposes."""
    log: str
    health: str
    started: bool = False
    removed_with: dict[str, str] | None = None
    files: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return dict(each.split("=", 1) for each in self.asked.get("Env") or ())

    @property
    def exposed(self) -> list[str]:
        return list(self.asked["ExposedPorts"])


@dataclass(slots=True)
class Engine:
    """Runs no image: a container of one has the port that `ports` names for it, or of a listener that hears nothing."""

    url: str
    ports: Mapping[str, int]
    logs: Mapping[str, str]
    health: str = "healthy"
    pulled: list[str] = field(default_factory=list)
    containers: list[FakeContainer] = field(default_factory=list)
    reaper_heard: list[str] = field(default_factory=list)
    """Filters of what the reaper removes after its last connection is closed."""

    def find_container(self, image: str) -> FakeContainer:
        [container] = [each for each in self.containers if each.image == image]
        return container

    @property
    def left(self) -> list[str]:
        """Images of containers that were not removed, without the reaper, which removes itself."""
        return [each.image for each in self.containers if each.removed_with is None and "ryuk" not in each.image]


@contextmanager
def engine(ports: Mapping[str, int], logs: Mapping[str, str], *, health: str = "healthy") -> Iterator[Engine]:
    with _reaper() as (reaper_port, reaper_heard):
        server = ThreadingHTTPServer((LOOPBACK, 0), _EngineApi)
        fake = Engine(
            f"tcp://{LOOPBACK}:{server.server_port}", {"ryuk": reaper_port, **ports}, logs, health, [], [], reaper_heard
        )
        server.engine = fake  # type: ignore[attr-defined]  # the handler's only way to the engine
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@contextmanager
def _reaper() -> Iterator[tuple[int, list[str]]]:
    """Listen as the library's reaper does, and keep what it is told."""
    heard: list[str] = []
    with socket.create_server((LOOPBACK, 0)) as listener:

        def listen() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    heard.append(connection.recv(1_000).decode().strip())

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield listener.getsockname()[1], heard
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


class _EngineApi(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """Head and body go together: apart, the body waits 40 ms until the head is acknowledged."""

    def do_GET(self) -> None:
        self._route("GET")

    def do_POST(self) -> None:
        self._route("POST")

    def do_PUT(self) -> None:
        self._route("PUT")

    def do_DELETE(self) -> None:
        self._route("DELETE")

    def log_message(self, *_: object) -> None:
        """Say nothing: what matters is kept."""

    @property
    def _engine(self) -> Engine:
        fake: Engine = self.server.engine  # type: ignore[attr-defined]  # the handler's only way to the engine
        return fake

    def _route(self, method: str) -> None:
        target = urlsplit(self.path)
        path = re.sub(r"^/v\d+\.\d+", "", target.path)
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        for wanted, pattern, answer in _ROUTES:
            if wanted == method and (match := re.fullmatch(pattern, path)):
                answer(self, match.groupdict(), query, body)
                return
        self._answer(501, {"message": f"{method} {path} is not played"})

    def _answer(self, status: int, body: object = None) -> None:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def version(self, _path: Mapping[str, str], _query: Mapping[str, str], _body: bytes) -> None:
        self._answer(200, {"ApiVersion": "1.47", "MinAPIVersion": "1.24", "Version": "27.0"})

    def image(self, path: Mapping[str, str], _query: Mapping[str, str], _body: bytes) -> None:
        if path["name"] in self._engine.pulled:
            self._answer(200, {"Id": path["name"], "RepoTags": [path["name"]]})
        else:
            self._answer(404, {"message": "No such image"})

    def pull(self, _path: Mapping[str, str], query: Mapping[str, str], _body: bytes) -> None:
        self._engine.pulled.append(f"{query['fromImage']}:{query['tag']}")
        self._answer(200, {"status": "Pulled"})

    def create(self, _path: Mapping[str, str], _query: Mapping[str, str], body: bytes) -> None:
        asked = json.loads(body)
        image = asked["Image"]
        port = next(port for part, port in self._engine.ports.items() if part in image)
        log = next((log for part, log in self._engine.logs.items() if part in image), "")
        self._engine.containers.append(FakeContainer(image, asked, port, log, self._engine.health))
        self._answer(201, {"Id": f"{len(self._engine.containers) - 1:064x}", "Warnings": []})

    def inspect(self, path: Mapping[str, str], _query: Mapping[str, str], _body: bytes) -> None:
        container = self._container(path)
        mapped = [{"HostIp": "0.0.0.0", "HostPort": str(container.port)}]  # as an engine says it
        self._answer(
            200,
            {
                "Id": path["id"],
                "Image": container.image,
                "Name": f"/{path['id'][-8:]}",
                "Config": {"Image": container.image, "Tty": False, "Labels": container.asked.get("Labels")},
                "State": {
                    "Status": "running" if container.started else "created",
                    "Running": container.started,
                    "Health": {"Status": container.health, "Log": []},
                },
                "NetworkSettings": {"Ports": dict.fromkeys(container.exposed, mapped), "Networks": {}},
            },
        )

    def start(self, path: Mapping[str, str], _query: Mapping[str, str], _body: bytes) -> None:
        self._container(path).started = True
        self._answer(204)

    def put_files(self, path: Mapping[str, str], _query: Mapping[str, str], body: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            for member in archive.getmembers():
                if (content := archive.extractfile(member)) is not None:
                    self._container(path).files["/" + member.name.lstrip("/")] = content.read().decode()
        self._answer(200)

    def logs(self, path: Mapping[str, str], query: Mapping[str, str], _body: bytes) -> None:
        line = self._container(path).log.encode() if query.get("stdout") in ("1", "True", "true") else b""
        self._answer(200, _STDOUT + len(line).to_bytes(4, "big") + line if line else b"")

    def remove(self, path: Mapping[str, str], query: Mapping[str, str], _body: bytes) -> None:
        self._container(path).removed_with = dict(query)
        self._answer(204)

    def _container(self, path: Mapping[str, str]) -> FakeContainer:
        return self._engine.containers[int(path["id"], 16)]


_Answer = Callable[[_EngineApi, Mapping[str, str], Mapping[str, str], bytes], None]
_ROUTES: list[tuple[str, str, _Answer]] = [
    ("GET", "/version", _EngineApi.version),
    ("GET", "/images/(?P<name>.+)/json", _EngineApi.image),
    ("POST", "/images/create", _EngineApi.pull),
    ("POST", "/containers/create", _EngineApi.create),
    ("GET", "/containers/(?P<id>[0-9a-f]+)/json", _EngineApi.inspect),
    ("POST", "/containers/(?P<id>[0-9a-f]+)/start", _EngineApi.start),
    ("PUT", "/containers/(?P<id>[0-9a-f]+)/archive", _EngineApi.put_files),
    ("GET", "/containers/(?P<id>[0-9a-f]+)/logs", _EngineApi.logs),
    ("DELETE", "/containers/(?P<id>[0-9a-f]+)", _EngineApi.remove),
]
