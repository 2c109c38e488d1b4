"""A chat model whose answers a test writes down, under a name of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess
from kb_local.server import poll_until

PATIENCE_S = 60.0


@dataclass(frozen=True)
class ScriptedModel:
    http: httpx.AsyncClient
    name: str

    async def says(self, *turns: dict[str, Any]) -> None:
        """Its answers, in order; the last one is given again and again."""
        (await self.http.put("/admin/chat", json={"model": self.name, "turns": turns})).raise_for_status()

    async def requests(self) -> list[dict[str, Any]]:
        """Return the requests that it received."""
        found: list[dict[str, Any]] = (await self._report())["requests"]
        return found

    async def wait_for_requests(self, times: int = 1) -> None:
        """Wait until it was asked so many times."""

        async def asked() -> bool:
            return len(await self.requests()) >= times

        assert await poll_until(asked, timeout_s=PATIENCE_S)

    async def release_answers(self) -> None:
        """End the delays of the answers that it has been asked for."""
        (await self.http.post(f"/admin/chat/{self.name}/release")).raise_for_status()

    async def wait_until_all_disconnected(self) -> None:
        """Wait until no client waits for an answer any more; return at once if no request came."""

        async def left() -> bool:
            report = await self._report()
            return bool(report["left"] == len(report["requests"]))

        assert await poll_until(left, timeout_s=PATIENCE_S)

    async def wait_until_disconnected(self) -> None:
        """Wait until a caller went away before the end of its answer."""

        async def left() -> bool:
            return bool((await self._report())["left"])

        assert await poll_until(left, timeout_s=PATIENCE_S)

    async def _report(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get(f"/admin/chat/{self.name}")).json()
        return found


@asynccontextmanager
async def scripted_model(model_server: ModelServerProcess) -> AsyncIterator[ScriptedModel]:
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS) as http:
        model = ScriptedModel(http, f"scripted-{uuid4().hex[:16]}")
        yield model
        await http.delete(f"/admin/chat/{model.name}")


def call(name: str, arguments: str, call_id: str | None = None) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, **({"id": call_id} if call_id else {})}
