"""The OpenAI embeddings API on the wire: what a request may say, what answers and errors look like."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import pybase64
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from kb_contracts.reasons.field_reasons import reasons

MAX_INPUTS = 2048

Vector = NDArray[np.float32]
EncodingFormat = Literal["float", "base64"]


@dataclass(frozen=True, slots=True)
class EmbeddingResult:
    """Vectors of the texts of one request, in their order."""

    vectors: Sequence[Vector]
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One vector of an answer; `index` names the input it belongs to, wherever it stands."""

    index: int
    vector: Vector


class ClientDisconnected(Exception):
    """The client closed the connection before the response."""


@dataclass(slots=True, eq=False)
class OpenAIError(Exception):
    """A refusal with the status and body OpenAI would send."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class EmbeddingRequest(BaseModel):
    """The body of `POST /v1/embeddings`. Lists of token ids are refused: no model here shares OpenAI's tokenizer."""

    model_config = ConfigDict(strict=True, frozen=True)

    model: str
    input: str | list[str]
    encoding_format: EncodingFormat = "float"
    dimensions: int | None = Field(default=None, ge=1)

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read a request.

        Raises:
            OpenAIError: 400; says which field is wrong and never repeats what it held.
        """
        try:
            request = cls.model_validate_json(body)
        except ValidationError as invalid:
            raise _invalid(invalid) from None
        if not request.texts or not all(request.texts):
            raise OpenAIError(400, "'input' must hold at least one text and no empty text.", param="input")
        if len(request.texts) > MAX_INPUTS:
            raise OpenAIError(400, f"'input' may hold {MAX_INPUTS} texts, not {len(request.texts)}.", param="input")
        return request

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


def _invalid(invalid: ValidationError) -> OpenAIError:
    first = reasons(invalid, EmbeddingRequest)[0]
    name = first.field.partition(".")[0] or None
    if name == "input":
        return OpenAIError(400, "'input' must be a string or a list of strings.", param=name)
    if name is None:
        return OpenAIError(400, "The body must be a JSON object of valid Unicode.")
    return OpenAIError(400, f"{name!r}: {first.message}.", param=name)


def unknown_model(name: str, known: Sequence[str]) -> OpenAIError:
    message = f"The model {name!r} does not exist; there are {', '.join(known)}."
    return OpenAIError(404, message, param="model", code="model_not_found")


def entries(embedded: EmbeddingResult) -> list[Entry]:
    return [Entry(index, vector) for index, vector in enumerate(embedded.vectors)]


def embeddings_body(answer: Sequence[Entry], *, request: EmbeddingRequest, prompt_tokens: int) -> bytes:
    """Return the JSON of an answer that holds `answer` in its order. Up to 20 ms for 100 x 1536 floats."""
    return to_json(
        {
            "object": "list",
            "model": request.model,
            "data": [
                {"object": "embedding", "index": entry.index, "embedding": _encoded(entry.vector, request)}
                for entry in answer
            ],
            "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
        },
    )


def _encoded(vector: Vector, request: EmbeddingRequest) -> str | list[float]:
    if request.encoding_format == "base64":
        return pybase64.b64encode_as_string(vector.astype("<f4", copy=False).tobytes())
    floats: list[float] = vector.tolist()
    return floats


def models_body(names: Sequence[str]) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "kb-local"} for name in names],
    }
