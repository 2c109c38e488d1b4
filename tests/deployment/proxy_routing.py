"""The real nginx with the real configuration, in front of stubs that say which service a request has reached."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kb_local.ports import free_port
from tests.deployment.compose_checks import ROOT

CONFIGURATION: Final = ROOT / "compose" / "nginx.conf"
UPSTREAMS: Final = ("kb-api", "kb-search", "kb-knowledge", "kb-console")


def find_nginx() -> str | None:
    """Return nginx on PATH, or the one that `make images` has unpacked."""
    return shutil.which("nginx") or shutil.which("nginx", path=str(ROOT / ".images/nginx/usr/sbin"))


def route_by_configuration(configuration: str, path: str) -> str:
    """Return the service to which the configuration sends a path: the first pattern that matches decides."""
    patterns = re.findall(r'"~(\S+)" "([\w-]+):8080";', configuration)
    assert {service for _, service in patterns} == set(UPSTREAMS) - {"kb-api"}
    return next((service for pattern, service in patterns if re.search(pattern, path)), "kb-api")


@dataclass(slots=True)
class StubService:
    """Answers each request with its own name and the path as it arrived, in two parts if asked for `/slow`."""

    name: str
    paths: list[str] = field(default_factory=list)
    second_part: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ", 2)[1]
            self.paths.append(path)
            writer.write(f"HTTP/1.1 200 OK\r\nX-Service: {self.name}\r\nConnection: close\r\n\r\n".encode())
            writer.write(f"{self.name} first\n".encode())
            await writer.drain()
            if "slow" in path:
                await self.second_part.wait()
                writer.write(b"second\n")
            await writer.drain()
        finally:
            writer.close()


@dataclass(frozen=True, slots=True)
class RunningProxy:
    port: int
    stubs: dict[str, StubService]


@asynccontextmanager
async def running_proxy(nginx: str, folder: Path) -> AsyncIterator[RunningProxy]:
    stubs = {name: StubService(name) for name in UPSTREAMS}
    servers = {name: await asyncio.start_server(stub.answer, "127.0.0.1", 0) for name, stub in stubs.items()}
    port = free_port()
    text = CONFIGURATION.read_text().replace("listen 8080;", f"listen 127.0.0.1:{port};")
    for name, server in servers.items():
        text = text.replace(f'"{name}:8080"', f'"127.0.0.1:{server.sockets[0].getsockname()[1]}"')
    configuration = folder / "nginx.conf"
    # Beside those of other tests, and of a proxy that runs on this machine.
    configuration.write_text(text.replace("/tmp/", f"{folder}/").replace("worker_processes auto", "worker_processes 1"))
    process = await asyncio.create_subprocess_exec(
        *(nginx, "-p", str(folder), "-c", str(configuration), "-g", "daemon off;"),
        env=os.environ,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield RunningProxy(port, stubs)
    finally:
        process.terminate()
        await process.wait()
        for server in servers.values():
            server.close()
