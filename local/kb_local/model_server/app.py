"""The HTTP application: OpenAI's routes, health, and the controls of the models for tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kb_contracts.reasons.field_reasons import describe
from kb_local.errors import UnusableModelFile
from kb_local.model_server import demo_chat, hash_model
from kb_local.model_server.chat_api import ChatReply, ChatRequest, chat_body, chat_events, encoded
from kb_local.model_server.hash_program import Program
from kb_local.model_server.hash_provider import HashProvider
from kb_local.model_server.minilm import MiniLM
from kb_local.model_server.model_worker import ModelWorker
from kb_local.model_server.nearest_sentences import EmbedTexts
from kb_local.model_server.openai_api import (
    ClientDisconnected,
    EmbeddingRequest,
    OpenAIError,
    embeddings_body,
    entries,
    models_body,
    unknown_model,
)
from kb_local.model_server.scripted_chat import NAME as SCRIPTED
from kb_local.model_server.scripted_chat import Script, ScriptedChat, garbage_body
from kb_local.model_server.text_model import Matrix, TextModel
from kb_local.model_server.use_multilingual import UseMultilingual

# Listed as examples; any other `hash-<dimensions>` is served too.
HASH_MODELS = ["hash-64", "hash-384", "hash-1536"]

Programmed = TypeVar("Programmed", bound=BaseModel)


def create_app(*, hash_only: bool = False) -> Starlette:
    """Return the application; once it starts, MiniLM loads in the background, and any other model when first asked."""
    server = ModelServer(hash_only=hash_only)
    return Starlette(
        routes=[
            Route("/v1/embeddings", server.embeddings, methods=["POST"]),
            Route("/v1/chat/completions", server.chat, methods=["POST"]),
            Route("/v1/models", server.models),
            Route("/healthz", server.healthz),
            Route("/readyz", server.readyz),
            Route("/admin/hash", server.put_program, methods=["PUT"]),
            Route("/admin/hash", server.hash_report, methods=["GET"]),
            Route("/admin/hash", server.reset_hash, methods=["DELETE"]),
            Route("/admin/hash/served", server.hash_served),
            Route("/admin/chat", server.put_script, methods=["PUT"]),
            Route("/admin/chat/{model}", server.chat_report, methods=["GET"]),
            Route("/admin/chat/{model}", server.reset_chat, methods=["DELETE"]),
            Route("/admin/chat/{model}/release", server.release_chat, methods=["POST"]),
        ],
        exception_handlers={
            OpenAIError: _openai_error,
            HTTPException: _http_error,
            ClientDisconnected: _client_disconnected,
        },
        lifespan=server.lifespan,
    )


class ModelServer:
    """The routes and the models behind them."""

    def __init__(self, *, hash_only: bool) -> None:
        models: Sequence[type[TextModel]] = () if hash_only else (MiniLM, UseMultilingual)
        self._workers = {model.name: ModelWorker(model) for model in models}
        self._default = self._workers.get(MiniLM.name)
        self._hash = HashProvider()
        self._scripted = ScriptedChat()

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        if self._default:
            self._default.load()
        yield
        for worker in self._workers.values():
            worker.close()

    async def embeddings(self, request: Request) -> Response:
        asked = EmbeddingRequest.parse(await request.body())
        if worker := self._workers.get(asked.model):
            return await self._embed(asked, request, worker=worker)
        dimensions = hash_model.dimensions_of(asked.model)
        if dimensions is None:
            raise unknown_model(asked.model, [*self._workers, "hash-<dimensions>"])
        wanted = asked.dimensions or dimensions
        if wanted > dimensions:
            raise OpenAIError(400, f"{asked.model!r} has at most {dimensions} dimensions.", param="dimensions")
        return await self._hash.answer(asked, wanted, is_disconnected=request.is_disconnected)

    async def _embed(self, asked: EmbeddingRequest, request: Request, *, worker: ModelWorker) -> Response:
        if asked.dimensions not in {None, worker.model.dimensions}:
            raise OpenAIError(400, f"{asked.model!r} has {worker.model.dimensions} dimensions.", param="dimensions")
        try:
            embedded = await worker.embed(asked.texts, is_disconnected=request.is_disconnected)
        except UnusableModelFile as unusable:
            raise OpenAIError(503, str(unusable), type="server_error", code="model_unavailable") from unusable
        answer = entries(embedded)
        body = await asyncio.to_thread(embeddings_body, answer, request=asked, prompt_tokens=embedded.prompt_tokens)
        return Response(body, media_type="application/json")

    async def chat(self, request: Request) -> Response:
        asked = ChatRequest.parse(await request.body())
        if SCRIPTED.fullmatch(asked.model):
            return await self._answer_as_scripted(asked, request)
        if asked.model != demo_chat.NAME:
            raise unknown_model(asked.model, [demo_chat.NAME])
        return _chat_response(asked, await demo_chat.reply(asked, self._embed_for(request)))

    def _embed_for(self, request: Request) -> EmbedTexts | None:
        """Return the function that compares sentences for the demo model; None while there is no model for that."""
        worker = self._default
        if worker is None or worker.why_not_ready():
            return None

        async def embed(texts: Sequence[str]) -> Matrix:
            return np.stack((await worker.embed(texts, is_disconnected=request.is_disconnected)).vectors)

        return embed

    async def _answer_as_scripted(self, asked: ChatRequest, request: Request) -> Response:
        turn = await self._scripted.turn(asked, is_disconnected=request.is_disconnected)
        if turn.garbage:
            return Response(garbage_body(), media_type="application/json")
        if asked.stream:
            events = self._scripted.events(asked, turn, is_disconnected=request.is_disconnected)
            return StreamingResponse(events, media_type="text/event-stream")
        return _chat_response(asked, self._scripted.reply(asked, turn))

    async def models(self, _: Request) -> Response:
        return JSONResponse(models_body([*self._workers, *HASH_MODELS, demo_chat.NAME]))

    async def healthz(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(self, _: Request) -> Response:
        reason = self._default.why_not_ready() if self._default else None
        return (
            JSONResponse({"status": "not ready", "reason": reason}, 503) if reason else JSONResponse({"status": "ok"})
        )

    async def put_program(self, request: Request) -> Response:
        self._hash.put(await _programmed(Program, request))
        return JSONResponse(self._hash.report())

    async def hash_report(self, _: Request) -> Response:
        return JSONResponse(self._hash.report())

    async def reset_hash(self, _: Request) -> Response:
        self._hash.reset()
        return Response(status_code=204)

    async def hash_served(self, request: Request) -> Response:
        return JSONResponse(self._hash.served(request.query_params.get("model")))

    async def put_script(self, request: Request) -> Response:
        self._scripted.put(await _programmed(Script, request))
        return Response(status_code=204)

    async def chat_report(self, request: Request) -> Response:
        return JSONResponse(self._scripted.report(request.path_params["model"]))

    async def release_chat(self, request: Request) -> Response:
        self._scripted.release(request.path_params["model"])
        return Response(status_code=204)

    async def reset_chat(self, request: Request) -> Response:
        self._scripted.reset(request.path_params["model"])
        return Response(status_code=204)


async def _programmed(kind: type[Programmed], request: Request) -> Programmed:
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as invalid:
        raise OpenAIError(400, describe(invalid, kind, whole="body")) from None


def _chat_response(asked: ChatRequest, reply: ChatReply) -> Response:
    if asked.stream:
        return StreamingResponse(chat_events(asked, reply), media_type="text/event-stream")
    return Response(encoded(chat_body(asked.model, reply)), media_type="application/json")


async def _openai_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, OpenAIError)
    return JSONResponse(error.body(), error.status, headers=error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = OpenAIError(error.status_code, f"{request.method} {request.url.path}: {error.detail}.")
    return JSONResponse(refusal.body(), error.status_code, headers=error.headers)


async def _client_disconnected(_: Request, __: Exception) -> Response:
    return Response(status_code=499)
