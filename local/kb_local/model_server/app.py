"""The HTTP application: OpenAI's routes, health, and the controls of the hash models."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kb_local.errors import UnusableModelFile
from kb_local.model_server import hash_model, minilm
from kb_local.model_server.hash_program import Program
from kb_local.model_server.hash_provider import HashProvider
from kb_local.model_server.minilm_worker import MiniLMWorker
from kb_local.model_server.openai_api import (
    CallerLeft,
    EmbeddingRequest,
    OpenAIError,
    embeddings_body,
    entries,
    models_body,
    unknown_model,
)

# Listed as examples; any other `hash-<dimensions>` is served too.
HASH_MODELS = ["hash-64", "hash-384", "hash-1536"]


def create_app(*, with_minilm: bool) -> Starlette:
    """Return the application; MiniLM, if wanted, loads in the background once it starts."""
    server = ModelServer(with_minilm=with_minilm)
    return Starlette(
        routes=[
            Route("/v1/embeddings", server.embeddings, methods=["POST"]),
            Route("/v1/models", server.models),
            Route("/healthz", server.healthz),
            Route("/readyz", server.readyz),
            Route("/admin/hash", server.put_program, methods=["PUT"]),
            Route("/admin/hash", server.hash_report, methods=["GET"]),
            Route("/admin/hash", server.reset_hash, methods=["DELETE"]),
            Route("/admin/hash/served", server.hash_served),
        ],
        exception_handlers={OpenAIError: _openai_error, HTTPException: _http_error, CallerLeft: _caller_left},
        lifespan=server.lifespan,
    )


class ModelServer:
    """The routes and the models behind them."""

    def __init__(self, *, with_minilm: bool) -> None:
        self._with_minilm = with_minilm
        self._minilm: MiniLMWorker | None = None
        self._hash = HashProvider()

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        if self._with_minilm:
            self._minilm = MiniLMWorker()
        yield
        if self._minilm:
            self._minilm.close()

    async def embeddings(self, request: Request) -> Response:
        asked = EmbeddingRequest.parse(await request.body())
        if self._minilm and asked.model == minilm.NAME:
            return await self._embed_with_minilm(asked, request, self._minilm)
        dimensions = hash_model.dimensions_of(asked.model)
        if dimensions is None:
            raise unknown_model(asked.model)
        wanted = asked.dimensions or dimensions
        if wanted > dimensions:
            raise OpenAIError(400, f"{asked.model!r} has at most {dimensions} dimensions.", param="dimensions")
        return await self._hash.answer(asked, wanted, caller_left=request.is_disconnected)

    async def _embed_with_minilm(self, asked: EmbeddingRequest, request: Request, worker: MiniLMWorker) -> Response:
        if asked.dimensions not in {None, minilm.DIMENSIONS}:
            raise OpenAIError(400, f"{minilm.NAME!r} has {minilm.DIMENSIONS} dimensions.", param="dimensions")
        try:
            embedded = await worker.embed(asked.texts, caller_left=request.is_disconnected)
        except UnusableModelFile as unusable:
            raise OpenAIError(503, str(unusable), type="server_error", code="model_unavailable") from unusable
        answer = entries(embedded)
        body = await asyncio.to_thread(embeddings_body, answer, request=asked, prompt_tokens=embedded.prompt_tokens)
        return Response(body, media_type="application/json")

    async def models(self, _: Request) -> Response:
        return JSONResponse(models_body([minilm.NAME, *HASH_MODELS] if self._minilm else HASH_MODELS))

    async def healthz(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(self, _: Request) -> Response:
        reason = self._minilm.why_not_ready() if self._minilm else None
        return (
            JSONResponse({"status": "not ready", "reason": reason}, 503) if reason else JSONResponse({"status": "ok"})
        )

    async def put_program(self, request: Request) -> Response:
        try:
            program = Program.model_validate_json(await request.body())
        except ValidationError as invalid:
            errors = invalid.errors(include_url=False, include_context=False)
            raise OpenAIError(400, "; ".join(f"{error['loc']}: {error['msg']}" for error in errors)) from None
        self._hash.put(program)
        return JSONResponse(self._hash.report())

    async def hash_report(self, _: Request) -> Response:
        return JSONResponse(self._hash.report())

    async def reset_hash(self, _: Request) -> Response:
        self._hash.reset()
        return Response(status_code=204)

    async def hash_served(self, request: Request) -> Response:
        return JSONResponse(self._hash.served(request.query_params.get("model")))


async def _openai_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, OpenAIError)
    return JSONResponse(error.body(), error.status, headers=error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = OpenAIError(error.status_code, f"{request.method} {request.url.path}: {error.detail}.")
    return JSONResponse(refusal.body(), error.status_code, headers=error.headers)


async def _caller_left(_: Request, __: Exception) -> Response:
    return Response(status_code=499)
