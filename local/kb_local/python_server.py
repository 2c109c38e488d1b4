import asyncio
import os
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from kb_local.child import SINGLE_THREADED, Child, execute
from kb_local.mongod import is_member, is_writable
from kb_local.ports import LOOPBACK
from kb_local.server import Server, accepts_connections
from kb_local.upstreams import GatewayUpstream
from kb_local.zygote import Zygote


class PythonServer(Server):
    """A module of this package that runs as `python -m`."""

    def __init__(self, name: str, module: str, *, port: int, log: Path, env: Mapping[str, str] | None = None) -> None:
        super().__init__(name, port=port, log=log)
        self._module = module
        self._env = dict(env or {})

    @abstractmethod
    def _arguments(self) -> Sequence[str]:
        """Return what follows `python -m <module>`."""

    def _launch(self) -> Child:
        return execute(
            [sys.executable, "-m", self._module, *self._arguments()],
            log=self.log,
            env={**os.environ, **SINGLE_THREADED, **self._env},
        )


class SearchNodeProcess(PythonServer):
    """The proxy that adds Atlas search to a member of a replica set, see `kb_local/search_node`."""

    def __init__(
        self,
        *,
        mongod: str,
        port: int,
        log: Path,
        name: str = "search-node",
        siblings: Mapping[str, str] | None = None,
        lag_ms: int = 0,
        build_delay_ms: int = 0,
    ) -> None:
        """Describe the node.

        Args:
            mongod: `host:port` of the member that it stands in front of: of the primary, where there is no other.
            port: on loopback.
            log: file that its output is appended to.
            name: of the server.
            siblings: `host:port` of the nodes in front of all other members, by that of their members.
            lag_ms: age at which a change becomes searchable.
            build_delay_ms: how long an index stays in the state BUILDING.
        """
        super().__init__(name, "kb_local.search_node", port=port, log=log)
        self._mongod = mongod
        self._siblings = dict(siblings or {})
        self._lag_ms = lag_ms
        self._build_delay_ms = build_delay_ms

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def uri(self) -> str:
        """Return the address of this node alone, also if it is one of several."""
        # Without `poll` each client keeps a second connection to watch a node that has no other to change to.
        return f"mongodb://{self.address}/?directConnection=true&serverMonitoringMode=poll"

    def _arguments(self) -> Sequence[str]:
        return [
            *("--listen", self.address),
            *("--mongod", self._mongod),
            *(part for pair in self._siblings.items() for part in ("--sibling", "=".join(pair))),
            *("--lag", str(self._lag_ms)),
            *("--build-delay", str(self._build_delay_ms)),
        ]

    async def is_ready(self) -> bool:
        # A driver that is closed while it still connects leaks its socket.
        if not await accepts_connections(LOOPBACK, self.port):
            return False
        if not self._siblings:
            return await is_writable(self.port)
        # A node whose member is down can't forward commands; the other nodes serve meanwhile.
        return await is_member(self.port) or not await self._member_accepts_connections()

    async def _member_accepts_connections(self) -> bool:
        host, _, port = self._mongod.rpartition(":")
        return await accepts_connections(host, int(port))


class ModelServerProcess(PythonServer):
    """The embedding models of this machine behind the OpenAI HTTP API, see `kb_local/model_server`."""

    def __init__(self, *, port: int, log: Path) -> None:
        super().__init__("model-server", "kb_local.model_server", port=port, log=log)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def api_base(self) -> str:
        """Return the base URL for an OpenAI client."""
        return f"{self.url}/v1"

    def _arguments(self) -> Sequence[str]:
        return ["--host", LOOPBACK, "--port", str(self.port)]

    async def is_ready(self) -> bool:
        return await answers_ok(f"{self.url}/readyz")


class GatewayProcess(PythonServer):
    """The one base URL in front of the services, see `kb_local/gateway.py`."""

    def __init__(
        self,
        upstreams: Mapping[GatewayUpstream, str],
        *,
        port: int,
        log: Path,
        zygote: Zygote | None = None,
    ) -> None:
        """Describe the gateway.

        Args:
            upstreams: base URL of each service.
            port: on loopback.
            log: file that its output is appended to.
            zygote: forks it; it runs already when the gateway is started. Without one the gateway is executed.
        """
        super().__init__("gateway", "kb_local.gateway", port=port, log=log)
        self._upstreams = dict(upstreams)
        self._zygote = zygote

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def _arguments(self) -> Sequence[str]:
        return [
            *("--port", str(self.port)),
            *(argument for name, url in self._upstreams.items() for argument in (f"--{name}", url)),
        ]

    def _launch(self) -> Child:
        if self._zygote is None:
            return super()._launch()
        return self._zygote.fork(self._module, arguments=self._arguments(), env=os.environ, log=self.log)

    async def is_ready(self) -> bool:
        return await accepts_connections(LOOPBACK, self.port)


async def answers_ok(url: str) -> bool:
    """Say whether a GET of `url` gives 200 within ten seconds, which are few on a busy machine.

    Written by hand: a client made for each look took more CPU than the start of a service that is looked at.
    """
    address = urlsplit(url)
    request = f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n\r\n"
    writer = None
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(request.encode())
            return (await reader.readline()).split()[1:2] == [b"200"]
    except OSError:
        return False
    finally:
        if writer is not None:
            writer.close()
