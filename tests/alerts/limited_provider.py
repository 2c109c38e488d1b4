"""A provider in front of the local model server that answers 429 to calls beyond its limit."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kb_local.ports import NO_TLS


@dataclass(slots=True)
class LimitedProvider:
    """Passes calls on, so many per second at most; all of them without a limit."""

    find_upstream: Callable[[], str]
    """Returns the address of the model server, which is known only when it runs."""
    calls_per_s: float | None = None
    _credit: float = 0.0
    _counted_at: float = 0.0

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/{path:path}", self.answer, methods=["GET", "POST"])])

    async def answer(self, request: Request) -> Response:
        if not self._admits():
            error = {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}
            return JSONResponse({"error": error}, status_code=429)
        url = f"{self.find_upstream()}/{request.path_params['path']}"
        async with httpx.AsyncClient(trust_env=False, verify=NO_TLS, timeout=60) as client:
            answer = await client.request(
                request.method, url, content=await request.body(), headers={"Content-Type": "application/json"}
            )
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    def _admits(self) -> bool:
        if self.calls_per_s is None:
            return True
        now = monotonic()
        elapsed_s = now - self._counted_at
        # Unused calls of the last second are not lost.
        self._credit = min(self.calls_per_s, self._credit + elapsed_s * self.calls_per_s)
        self._counted_at = now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True
