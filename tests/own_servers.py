"""Servers that speak as Ollama and vLLM do, with their lists, their limits and the words of their errors.

They hold no model: they answer with the question's last words, and give vectors that come from words.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Answer: TypeAlias = tuple[int, Any]
"""Status and body; a list is streamed as events, a text is sent as it is."""


@dataclass(frozen=True, slots=True)
class HeldModel:
    """A model that a server holds."""

    dimensions: int | None = None
    """Dimensions of an embedding model; None: it answers."""
    calls_tools: bool = True
    context: int = 4_096
    seed: str = ""
    """Two servers whose models have one name and different seeds give different vectors."""


@dataclass(slots=True)
class OwnServer:
    """A server, and what it was asked."""

    dialect: "Callable[[OwnServer, str, str, Mapping[str, Any]], Answer]"
    models: dict[str, HeldModel]
    api_key: str | None = None
    port: int = 0
    asked: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or "{}")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        method, path, _ = head[0].split(" ")
        self.asked.append((method, path, body))
        if self.api_key is not None and headers.get("authorization") != f"Bearer {self.api_key}":
            status, answer = 401, {"error": "Unauthorized"}
        else:
            status, answer = self.dialect(self, method, path, body)
        writer.write(_response(status, answer))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def ollama(models: dict[str, HeldModel] | None = None) -> AsyncIterator[OwnServer]:
    """Serve a chat model with a short context, one that takes no tools, and an embedding model."""
    held = models or {
        "llama3.1:8b": HeldModel(),
        "gemma:2b": HeldModel(calls_tools=False, context=8_192),
        "nomic-embed-text:latest": HeldModel(dimensions=48, context=2_048),
    }
    async with _served(OwnServer(_ask_ollama, held)) as server:
        yield server


@asynccontextmanager
async def vllm(models: dict[str, HeldModel] | None = None, *, api_key: str | None = None) -> AsyncIterator[OwnServer]:
    """Serve one model, as vLLM does, which was started without the options for tools."""
    held = models or {"meta-llama/Llama-3.1-8B-Instruct": HeldModel(calls_tools=False, context=32_768)}
    async with _served(OwnServer(_ask_vllm, held, api_key=api_key)) as server:
        yield server


@asynccontextmanager
async def _served(server: OwnServer) -> AsyncIterator[OwnServer]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def _response(status: int, answer: Any) -> bytes:
    if isinstance(answer, list):
        kind = "text/event-stream"
        content = "".join(f"data: {json.dumps(each)}\n\n" for each in answer) + "data: [DONE]\n\n"
    elif isinstance(answer, str):
        kind, content = "text/plain", answer
    else:
        kind, content = "application/json", json.dumps(answer)
    sent = content.encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(sent)}\r\nconnection: close\r\n\r\n"
    return head.encode() + sent


def _ask_ollama(server: OwnServer, method: str, path: str, body: Mapping[str, Any]) -> Answer:
    if method == "GET":
        return _read_ollama(server, path)
    asked = str(body.get("model"))
    name = asked if asked in server.models else f"{asked}:latest"
    if path not in {"/api/show", "/v1/chat/completions", "/v1/embeddings"}:
        return 404, "404 page not found"
    if (model := server.models.get(name)) is None:
        words = f"model '{asked}' not found, try pulling it first"
        return 404, {"error": words} if path == "/api/show" else _error_of_ollama(words, "not_found_error")
    if path == "/api/show":
        own = ["embedding"] if model.dimensions else ["completion", *(["tools"] if model.calls_tools else [])]
        return 200, {
            "capabilities": own,
            "model_info": {"general.architecture": "x", "x.context_length": model.context},
        }
    if (refusal := _refusal_of_ollama(path, asked, model, body)) is not None:
        return refusal
    if model.dimensions is None and name not in server.loaded:
        server.loaded.append(name)
    # It cuts what is longer than its context, and says nothing.
    return 200, (
        _vectors(body, model)
        if path == "/v1/embeddings"
        else _completion(body, prompt_tokens=min(_tokens(body), model.context))
    )


def _read_ollama(server: OwnServer, path: str) -> Answer:
    loaded = [{"name": name, "model": name, "context_length": server.models[name].context} for name in server.loaded]
    data = [{"id": name, "object": "model", "created": 1, "owned_by": "library"} for name in server.models]
    answers: dict[str, Any] = {
        "/": "Ollama is running",
        "/api/version": {"version": "0.12.6"},
        "/api/tags": {"models": [{"name": name, "model": name, "size": 1, "digest": "x"} for name in server.models]},
        "/api/ps": {"models": loaded},
        "/v1/models": {"object": "list", "data": data},
    }
    return (200, answers[path]) if path in answers else (404, "404 page not found")


def _refusal_of_ollama(path: str, asked: str, model: HeldModel, body: Mapping[str, Any]) -> Answer | None:
    if path == "/v1/embeddings" and model.dimensions is None:
        return 501, _error_of_ollama("this model does not support embeddings", "api_error")
    if path == "/v1/chat/completions" and model.dimensions is not None:
        return 400, _error_of_ollama(f'"{asked}" does not support chat', "invalid_request_error")
    if body.get("tools") and not model.calls_tools:
        words = f"registry.ollama.ai/library/{asked} does not support tools"
        return 400, _error_of_ollama(words, "invalid_request_error")
    return None


def _error_of_ollama(words: str, kind: str) -> Any:
    return {"error": {"message": words, "type": kind, "param": None, "code": None}}


def _ask_vllm(server: OwnServer, method: str, path: str, body: Mapping[str, Any]) -> Answer:
    if (method, path) == ("GET", "/v1/models"):
        common = {"object": "model", "created": 1, "owned_by": "vllm", "parent": None, "permission": []}
        held = server.models.items()
        data = [{"id": name, "root": name, "max_model_len": model.context, **common} for name, model in held]
        return 200, {"object": "list", "data": data}
    if path not in {"/v1/chat/completions", "/v1/embeddings"} or method != "POST":
        return 404, {"detail": "Not Found"}
    asked = str(body.get("model"))
    if (model := server.models.get(asked)) is None:
        return _error_of_vllm(f"The model `{asked}` does not exist.", "NotFoundError", 404)
    if (words := _refusal_of_vllm(path, model, body)) is not None:
        return _error_of_vllm(words, "BadRequestError", 400)
    if path == "/v1/embeddings":
        return 200, _vectors(body, model)
    return 200, _completion(body, prompt_tokens=_tokens(body))


def _refusal_of_vllm(path: str, model: HeldModel, body: Mapping[str, Any]) -> str | None:
    if path == "/v1/embeddings":
        return "The model does not support Embeddings API" if model.dimensions is None else None
    if model.dimensions is not None:
        return "The model does not support Chat Completions API"
    if body.get("tools") and not model.calls_tools:
        return '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    prompt, allowed = _tokens(body), body.get("max_completion_tokens") or body.get("max_tokens") or 16
    if prompt + allowed <= model.context:
        return None
    return (
        f"This model's maximum context length is {model.context} tokens. However, you requested {prompt + allowed} "
        f"tokens ({prompt} in the messages, {allowed} in the completion). Please reduce the length of the messages "
        "or completion."
    )


def _error_of_vllm(words: str, kind: str, status: int) -> Answer:
    return status, {"object": "error", "message": words, "type": kind, "param": None, "code": status}


def _tokens(body: Mapping[str, Any]) -> int:
    return len(json.dumps(body["messages"])) // 4 + 1


def _vectors(body: Mapping[str, Any], model: HeldModel) -> Any:
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    data = [{"object": "embedding", "index": at, "embedding": _vector(text, model)} for at, text in enumerate(texts)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _vector(text: str, model: HeldModel) -> list[float]:
    """Return a vector to which each word adds numbers of its own, so that texts with common words are similar."""
    assert model.dimensions is not None
    found = [0.01] * model.dimensions
    for word in text.lower().split():
        digest = hashlib.shake_256(f"{model.seed}/{word}".encode()).digest(model.dimensions)
        found = [value + (byte - 127.5) / 127.5 for value, byte in zip(found, digest, strict=True)]
    return found


def _completion(body: Mapping[str, Any], *, prompt_tokens: int) -> Any:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 5, "total_tokens": prompt_tokens + 5}
    message: dict[str, Any]
    tool = next((each["function"] for each in body.get("tools") or ()), None)
    was_called = any(each["role"] == "tool" for each in body["messages"])
    if tool is not None and not was_called:
        known = {"city": "Lund", "query": _last_question(body)}
        arguments = {name: value for name, value in known.items() if name in tool["parameters"]["properties"]}
        function = {"name": tool["name"], "arguments": json.dumps(arguments)}
        call = {"id": "call_1", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": "", "tool_calls": [call]}, "tool_calls"
    elif "response_format" in body:
        message, reason = {"role": "assistant", "content": '{"ok": true}'}, "stop"
    else:
        message, reason = {"role": "assistant", "content": f"{body['model']} has read the passages [1]."}, "stop"
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {"id": "c", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}
    common = {"id": "c", "object": "chat.completion.chunk", "model": body["model"]}
    delta = {**message, "tool_calls": [{"index": 0, **each} for each in message.get("tool_calls", ())]}
    return [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**common, "choices": [], "usage": usage},
    ]


def _last_question(body: Mapping[str, Any]) -> str:
    return str(next((each["content"] for each in reversed(body["messages"]) if each["role"] == "user"), ""))
