"""The only door to embedding providers, and the only file that imports litellm (seconds of CPU, 165 MB)."""

import json
import logging
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kb_shared.embedding.answers import BadAnswer, vectors_of
from kb_shared.embedding.models import BundledModel, InputType, Model
from kb_shared.embedding.provider_errors import (
    MEANING_OF_CLASS,
    Failure,
    StatusClass,
    bad_answer,
    classified,
    retry_after_s,
)
from kb_shared.embedding.public_transport import public_only_transport
from kb_shared.embedding.vector import Vector
from kb_shared.metrics import EMBEDDING_API_CALLS, EMBEDDING_REQUEST_SECONDS, PROVIDER_RESPONSES

# Read while it is imported: without it litellm fetches its price list from GitHub, with retries.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
with warnings.catch_warnings():
    # Its own, and those of what it imports.
    warnings.simplefilter("ignore")
    import httpx
    import litellm
    import openai
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler
    from litellm.types.router import LiteLLM_Params

    # Else built in the first call, with a warning that is fatal where warnings are errors.
    LiteLLM_Params.model_rebuild()

# `max_retries=0` alone is overruled by this default: three requests a call, asleep through Retry-After.
litellm.DEFAULT_MAX_RETRIES = 0
litellm.suppress_debug_info = True
litellm.telemetry = False
# What it would log are requests and the answers to them.
litellm.turn_off_message_logging = True
for _name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

LITELLM_ERRORS: Final[tuple[type[Exception], ...]] = (
    openai.OpenAIError,
    *(getattr(litellm.exceptions, name) for name in MEANING_OF_CLASS),
)
"""Most are openai's, too, but not all."""


def bundled_models() -> dict[str, BundledModel]:
    """The embedding models that litellm brings a description of, by name."""
    return {
        name: BundledModel(
            # Some providers are listed twice, once as `<provider>-embedding-models`.
            provider=described["litellm_provider"].removesuffix("-embedding-models"),
            max_input_tokens=described.get("max_input_tokens"),
            dimensions=described.get("output_vector_size"),
        )
        for name, described in litellm.model_cost.items()
        if described.get("mode") == "embedding"
    }


class Provider:
    """Asks providers for embeddings: one request a call."""

    def __init__(self, *, timeout_s: float, private_addresses: bool = False) -> None:
        """Wire it.

        Args:
            timeout_s: of a call.
            private_addresses: whether organizations may name addresses that are not public.
        """
        self._timeout_s = timeout_s
        transport = httpx.AsyncHTTPTransport(trust_env=False) if private_addresses else public_only_transport()
        # A redirect would lead wherever the organization's server likes.
        self._to_named_addresses = AsyncHTTPHandler(transport=transport, follow_redirects=False)

    async def embed(
        self, texts: Sequence[str], *, model: Model, dimensions: int | None, input_type: InputType
    ) -> list[Vector]:
        """Return one checked vector per text, in the order of `texts`.

        Args:
            texts: as many as the provider takes in one request; none is empty.
            model: of the catalogue.
            dimensions: that the vectors must have; None: as many as the model gives by itself.
            input_type: what the texts are, for models that make a difference.

        Raises:
            ProviderUnavailable: timeout, no connection, 408, 409, 429, 5xx, or an answer that can't be used.
            ProviderKeyRefused: 401, 402, 403, or a 429 that says the quota is used up.
            BatchRefused: 400, 413, 422, or a text that is too long: ask for fewer.
            ProviderRefused: any other 4xx.
        """
        EMBEDDING_API_CALLS.labels(model.label).inc()
        began = time.perf_counter()
        try:
            answer = await litellm.aembedding(**self._request(texts, model, dimensions, input_type))
            vectors = vectors_of(answer.data, count=len(texts), dimensions=dimensions)
        except BadAnswer as wrong:
            status_class: StatusClass = "bad_answer"
            failure: Exception = bad_answer(model.name, str(wrong))
        except LITELLM_ERRORS as error:
            status_class, failure = classified(model.name, _failure(error))
        else:
            EMBEDDING_REQUEST_SECONDS.labels(model.label).observe(time.perf_counter() - began)
            PROVIDER_RESPONSES.labels(model.label, "2xx").inc()
            return vectors
        PROVIDER_RESPONSES.labels(model.label, status_class).inc()
        # Raised out here, so that no provider's words travel along as its context.
        raise failure

    async def close(self) -> None:
        """Close the connections. litellm shares them between all of its callers in this process."""
        await self._to_named_addresses.close()
        await litellm.close_litellm_async_clients()
        litellm.in_memory_llm_clients_cache.flush_cache()

    def _request(
        self, texts: Sequence[str], model: Model, dimensions: int | None, input_type: InputType
    ) -> Mapping[str, Any]:
        request: dict[str, Any] = {
            "model": model.route,
            "input": list(texts),
            "timeout": self._timeout_s,
            "max_retries": 0,
            "api_key": model.api_key,
        }
        if model.api_base is not None:
            request["api_base"] = model.api_base
        if model.access is not None and model.access.api_base is not None and model.base64:
            request["client"] = self._to_named_addresses
        if model.base64:
            request["encoding_format"] = "base64"
        if model.input_types:
            request["input_type"] = model.input_types[input_type]
        # Many models refuse the parameter even with their own number.
        if dimensions is not None and model.default_dimensions not in {None, dimensions}:
            request["dimensions"] = dimensions
        return request


def _failure(error: Exception) -> Failure:
    """Read an error of litellm, which has a `status_code`: 500 where nothing answered."""
    status = getattr(error, "status_code", None)
    return Failure(
        classes=[each.__name__ for each in type(error).__mro__],
        status=status if isinstance(status, int) else None,
        code=_code(error),
        retry_after_s=retry_after_s(getattr(error, "litellm_response_headers", None)),
    )


def _code(error: BaseException | None) -> str | None:
    """`error.code` of the provider's answer; litellm keeps the answer in one of the errors that its own came from."""
    while error is not None:
        for answer in (getattr(error, "body", None), _parsed(getattr(error, "message", None))):
            described = answer.get("error", answer) if isinstance(answer, dict) else None
            code = described.get("code") if isinstance(described, dict) else None
            if isinstance(code, str):
                return code
        error = error.__cause__ or error.__context__
    return None


def _parsed(answer: object) -> object:
    try:
        return json.loads(answer) if isinstance(answer, str) else None
    except (ValueError, RecursionError):
        return None
