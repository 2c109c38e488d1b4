"""The hash models as a provider that can be slow and wrong on purpose, and remembers what it served."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np
from starlette.responses import HTMLResponse, Response

from kb_local.model_server import hash_model
from kb_local.model_server.delays import wait
from kb_local.model_server.hash_program import Fault, Program, RunningProgram
from kb_local.model_server.openai_api import (
    ClientDisconnected,
    EmbeddingRequest,
    Entry,
    OpenAIError,
    embeddings_body,
    entries,
)

# Clients distinguish some errors by OpenAI's texts, not by the status.
_ERROR_OF_STATUS = {
    400: ("invalid_request_error", None, "Asked for by the test."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided: ****."),
    403: ("insufficient_permissions", None, "You have insufficient permissions for this operation."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    413: ("request_too_large", None, "Maximum content size limit exceeded."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
}
_SERVER_ERROR = ("server_error", None, "The server had an error while processing your request.")


class HashProvider:
    """Answers for every model `hash-<dimensions>`; one for the whole server."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the program and every count."""
        self._running = RunningProgram(Program())
        self._counts: Counter[str] = Counter()
        self._served: dict[str, Counter[str]] = {}

    def put(self, program: Program) -> None:
        """Start `program` from its beginning; counts go on."""
        self._running = RunningProgram(program)

    def report(self) -> dict[str, object]:
        """Return the program and the counts since the last reset.

        `calls` and `inputs` are what was asked for; `answered_*` and `prompt_tokens` what was answered rightly.
        """
        counted = ("calls", "inputs", "answered_calls", "answered_inputs", "prompt_tokens")
        return self._running.report() | {name: self._counts[name] for name in counted}

    def served(self, model: str | None) -> dict[str, int]:
        """Return how often each text got its vector, by the SHA-256 of the text; of all models if None is named.

        A call counts when its whole answer was right (in any order) and the caller was there to take it.
        """
        chosen = self._served.values() if model is None else [self._served.get(model, Counter())]
        return dict(sum(chosen, Counter()))

    async def answer(
        self, request: EmbeddingRequest, dimensions: int, *, is_disconnected: Callable[[], Awaitable[bool]]
    ) -> Response:
        """Answer as the program says.

        Raises:
            OpenAIError: the program asked for it.
            ClientDisconnected: while the program made it wait.
        """
        self._counts.update(calls=1, inputs=len(request.texts))
        running = self._running
        fault = running.next_fault(request)
        hang_s = fault.hang_s if fault and fault.kind == "hang" else 0
        await wait(
            running.delay_s + hang_s,
            is_disconnected=is_disconnected,
            is_released=lambda: self._running is not running,
        )
        if fault:
            _raise_if_error(fault)
        if fault and fault.kind == "not_json":
            return HTMLResponse("<html><body>Bad gateway</body></html>")
        embedded = await asyncio.to_thread(hash_model.embed, request.texts, dimensions=dimensions)
        given = _corrupt(entries(embedded), fault)
        body = await asyncio.to_thread(embeddings_body, given, request=request, prompt_tokens=embedded.prompt_tokens)
        if await is_disconnected():
            raise ClientDisconnected
        if fault is None or fault.kind in {"hang", "shuffled"}:
            self._record(request, embedded.prompt_tokens)
        return Response(body, media_type="application/json")

    def _record(self, request: EmbeddingRequest, prompt_tokens: int) -> None:
        self._counts.update(answered_calls=1, answered_inputs=len(request.texts), prompt_tokens=prompt_tokens)
        of_model = self._served.setdefault(request.model, Counter())
        of_model.update(hash_model.text_sha256(text) for text in request.texts)


def _raise_if_error(fault: Fault) -> None:
    if fault.kind == "context_length":
        raise OpenAIError(
            400,
            "This model's maximum context length is 8192 tokens, however you requested 8193 tokens.",
            param="input",
            code="context_length_exceeded",
        )
    if fault.status is not None:
        retry_after = {} if fault.retry_after_s is None else {"Retry-After": f"{fault.retry_after_s:g}"}
        error_type, code, message = _ERROR_OF_STATUS.get(fault.status, _SERVER_ERROR)
        raise OpenAIError(fault.status, message, type=error_type, code=code, headers=retry_after)


def _corrupt(right: Sequence[Entry], fault: Fault | None) -> Sequence[Entry]:
    """Return the response with the fault in it, at a place that a careless check misses."""
    last = right[-1]
    match fault.kind if fault else None:
        case "short":
            # Without the first, every vector of a client that pairs by position is off by one.
            return right[1:]
        case "wrong_dimension":
            return [*right[:-1], replace(last, vector=last.vector[:-1])]
        case "nan":
            holed = last.vector.copy()
            holed[-1] = np.nan
            return [*right[:-1], replace(last, vector=holed)]
        case "shuffled":
            return right[::-1]
        case _:
            return right
