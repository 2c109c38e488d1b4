"""Asks providers for embeddings. No other module does."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kb_shared.embedding.answers import BadAnswer, TooManyDimensions, vectors_of
from kb_shared.embedding.late_models import LateModelFailed, LateModels
from kb_shared.embedding.models import MAX_DIMENSIONS, BundledModel, EmbeddingModel
from kb_shared.errors import TimedOut
from kb_shared.mongo.vector import Vector
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import EMBEDDING_API_CALLS, EMBEDDING_REQUEST_SECONDS, PROVIDER_RESPONSES
from kb_shared.observability.tracing import TraceSpan
from kb_shared.providers.call_attributes import call_attributes
from kb_shared.providers.capped_answers import AnswerTooLarge, answers_up_to
from kb_shared.providers.known_providers import InputType
from kb_shared.providers.late_litellm import describe_models, errors_of_litellm, load_litellm, loaded_litellm
from kb_shared.providers.named_addresses import NamedAddresses
from kb_shared.providers.openai_server import (
    CALL_ERRORS,
    END_OF_STREAM,
    OpenAIServers,
    ServerAddress,
    ServerFailed,
    UnreadableAnswer,
    failure_of_call,
    failure_of_other_body,
    server_of,
)
from kb_shared.providers.provider_errors import (
    Failure,
    StatusClass,
    answer_too_large,
    bad_answer,
    classified,
    late_model_failed,
    timed_out,
)
from kb_shared.providers.refused_options import ServerHabits, find_refused

STARVED_AFTER_S: Final = 1.0
"""Delay of a timeout from which on the process is taken to lack CPU, and the provider is not blamed."""
_TIMEOUT_SETTING: Final = "KB_EMBEDDING_TIMEOUT_S"
_PATH: Final = "/embeddings"
_MOST_ATTEMPTS: Final = 3
"""Requests of one call: each but the first leaves out an option that the server does not know."""
_PLACES_OF_VECTORS: Final = ("data", "embeddings", "embedding")
"""Fields of an answer that hold the vectors: OpenAI's, and those of servers that take its requests."""
_BYTES_PER_DIMENSION: Final = 40
"""Bytes of a number in JSON: all its digits, a comma, an indented line of its own."""
_BYTES_AROUND_VECTORS: Final = 65_536


def bundled_models() -> dict[str, BundledModel]:
    """Return the embedding models that litellm brings a description of, by name."""
    return {
        name: BundledModel(
            # Some providers are listed twice, once as `<provider>-embedding-models`.
            provider=described["litellm_provider"].removesuffix("-embedding-models"),
            max_input_tokens=described.get("max_input_tokens"),
            dimensions=described.get("output_vector_size"),
            usd_per_token=described.get("input_cost_per_token"),
        )
        for name, described in describe_models("embedding").items()
    }


class Provider:
    """Asks providers for embeddings: one request a call."""

    def __init__(self, *, timeout_s: float, private_addresses: bool = False) -> None:
        """Construct it.

        Args:
            timeout_s: of a whole call, the last byte of its answer included.
            private_addresses: whether organizations may name addresses that are not public.
        """
        self.timeout_s = timeout_s
        self._late_models = LateModels()
        self._named_addresses = NamedAddresses(private=private_addresses)
        self._servers = OpenAIServers(private_addresses=private_addresses)
        self._habits = ServerHabits()

    async def embed(
        self, texts: Sequence[str], *, model: EmbeddingModel, dimensions: int | None, input_type: InputType
    ) -> list[Vector]:
        """Return one checked vector per text, in the order of `texts`.

        Args:
            texts: as many as the provider takes in one request; none is empty.
            model: of the catalogue.
            dimensions: that the vectors must have; None: as many as the model gives by itself.
            input_type: what the texts are, for models that make a difference.

        Raises:
            TimedOut: this process had too little CPU to see in time whether there was an answer.
            ProviderUnavailable: timeout, no connection, 408, 409, 429, 5xx, or an answer that can't be used.
            ProviderKeyRefused: 401, 402, 403, or a 429 that says the quota is used up.
            ProviderIncompatible: what answers does not speak OpenAI's API.
            BatchRefused: 400, 413, 422, or a text that is too long: ask for fewer.
            ProviderRefused: any other 4xx, or an answer that is larger than a right one can be.
        """
        attributes = call_attributes("embeddings", model.name, model.route) | {"kb.texts": len(texts)}
        with tracing.span(spans.EMBEDDINGS, attributes, of=model.label) as span:
            return await self._embed(texts, model, dimensions=dimensions, input_type=input_type, span=span)

    async def close(self) -> None:
        """Close the connections. litellm shares them between all of its callers in this process."""
        self._late_models.close()
        await self._named_addresses.close()
        await self._servers.close()
        if (quiet := loaded_litellm()) is not None:
            await quiet.litellm.close_litellm_async_clients()
            quiet.litellm.in_memory_llm_clients_cache.flush_cache()

    async def _embed(
        self,
        texts: Sequence[str],
        model: EmbeddingModel,
        *,
        dimensions: int | None,
        input_type: InputType,
        span: TraceSpan,
    ) -> list[Vector]:
        EMBEDDING_API_CALLS.labels(model.label).inc()
        began = time.perf_counter()
        try:
            entries = await self._request_vectors(texts, model, dimensions=dimensions, input_type=input_type)
            vectors = vectors_of(entries, count=len(texts), dimensions=dimensions)
        except TimeoutError:
            status_class: StatusClass = "timeout"
            failure: Exception = timed_out(model.name, after_s=self.timeout_s, setting=_TIMEOUT_SETTING)
        except (BadAnswer, UnreadableAnswer) as wrong:
            status_class, failure = "bad_answer", bad_answer(model.name, str(wrong))
        except (AnswerTooLarge, TooManyDimensions) as too_large:
            status_class, failure = "bad_answer", answer_too_large(model.name, str(too_large))
        except (*CALL_ERRORS, *errors_of_litellm()) as error:
            status_class, failure = classified(model.name, _failure(error))
        except LateModelFailed as failed:
            status_class, failure = "5xx", late_model_failed(model.name, str(failed))
        else:
            EMBEDDING_REQUEST_SECONDS.labels(model.label).observe(time.perf_counter() - began)
            PROVIDER_RESPONSES.labels(model.label, "2xx").inc()
            span.set({"kb.status_class": "2xx", "gen_ai.embeddings.dimension.count": len(vectors[0])})
            return vectors
        span.set({"kb.status_class": status_class})
        if status_class == "timeout" and time.perf_counter() - began > self.timeout_s + STARVED_AFTER_S:
            # The answer may have arrived long before: this says nothing about the provider.
            raise TimedOut("this process had too little CPU to read the answer of a provider in time")
        PROVIDER_RESPONSES.labels(model.label, status_class).inc()
        # Raised out here, so that no provider's words travel along as its context.
        raise failure

    async def _request_vectors(
        self, texts: Sequence[str], model: EmbeddingModel, *, dimensions: int | None, input_type: InputType
    ) -> Any:
        """Return `data` of an OpenAI answer."""
        if model.late_source is not None:
            vectors = await self._late_models.embed(model.late_source, texts, input_type)
            return [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        request = _request(texts, model, dimensions=dimensions, input_type=input_type)
        most = _largest_answer(len(texts), dimensions)
        server = server_of(model.route, api_base=model.api_base, api_key=model.api_key, access=model.access)
        # Before the time of the call begins.
        quiet = await load_litellm() if server is None else None
        # LiteLLM's own timeout is for each read: a server that sends a byte now and then would never reach it.
        async with asyncio.timeout(self.timeout_s):
            if quiet is None:
                assert server is not None
                return await self._ask(request, model, server, max_bytes=most)
            with answers_up_to(most), quiet.without_its_log():
                return (await quiet.litellm.aembedding(**request, **self._litellm_arguments(model))).data

    async def _ask(
        self, request: Mapping[str, Any], model: EmbeddingModel, server: ServerAddress, *, max_bytes: int
    ) -> Any:
        """Ask a server, and ask it again without the options that it is found not to know."""
        refused = self._habits.refused(model.fingerprint)
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            body = {name: value for name, value in request.items() if name not in refused}
            try:
                pieces = await self._servers.ask(_PATH, body, server=server, max_bytes=max_bytes)
            except ServerFailed as failed:
                sent = body.keys() - {"model", "input"}
                may_guess = not self._habits.has_answered(model.fingerprint)
                found = find_refused(failed.failure, failed.said, sent=sent, may_guess=may_guess)
                if not found or attempt == _MOST_ATTEMPTS:
                    raise
                refused |= found
            else:
                self._habits.note_answer(model.fingerprint, without=refused)
                return _vectors_in([piece for piece in pieces if piece and END_OF_STREAM not in piece])
        raise AssertionError("the last attempt returns or raises")

    def _litellm_arguments(self, model: EmbeddingModel) -> Mapping[str, Any]:
        arguments: dict[str, Any] = {
            "timeout": self.timeout_s,
            "max_retries": 0,
            "api_key": model.api_key,
        }
        if model.api_base is not None:
            arguments["api_base"] = model.api_base
        if (client := self._named_addresses.client(model.route, model.access)) is not None:
            arguments["client"] = client
        return arguments


def _request(
    texts: Sequence[str], model: EmbeddingModel, *, dimensions: int | None, input_type: InputType
) -> Mapping[str, Any]:
    request: dict[str, Any] = {"model": model.server_name, "input": list(texts)}
    if model.base64:
        request["encoding_format"] = "base64"
    if model.input_types:
        request["input_type"] = model.input_types[input_type]
    # Many models refuse the parameter even with their own number.
    if dimensions is not None and model.default_dimensions not in {None, dimensions}:
        request["dimensions"] = dimensions
    return request


def _vectors_in(pieces: Sequence[Mapping[str, Any]]) -> Any:
    """Return what an answer holds in the place of vectors. Raises ServerFailed if it is no answer of that kind."""
    answer = pieces[0] if pieces else {}
    for place in _PLACES_OF_VECTORS:
        if place in answer:
            found = answer[place]
            return [found] if place == "embedding" else found
    raise ServerFailed(failure_of_other_body(answer, expected="data"))


def _failure(error: Exception) -> Failure:
    if isinstance(error, CALL_ERRORS):
        return failure_of_call(error)
    failure: Failure = loaded_litellm().failure_of(error)  # type: ignore[union-attr]  # the error is litellm's
    return failure


def _largest_answer(texts: int, dimensions: int | None) -> int:
    return texts * (dimensions or MAX_DIMENSIONS) * _BYTES_PER_DIMENSION + _BYTES_AROUND_VECTORS
