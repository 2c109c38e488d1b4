"""Programs that tests give the hash models: delays, and faults with conditions and counts."""

import random
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kb_local.model_server.openai_api import EmbeddingRequest

FaultKind = Literal["short", "wrong_dimension", "nan", "shuffled", "hang", "not_json", "context_length"]


class Fault(BaseModel):
    """One thing that goes wrong with the calls it applies to. Every condition left out applies to all calls.

    Attributes:
        status: answer with this HTTP error, or else
        kind: one of `FaultKind`.
        times: how many calls are hit; None is all of them.
        retry_after_s: the Retry-After header of a `status` fault, if it has one.
        hang_s: how long `hang` waits before it answers as it should have; another program or a reset ends it earlier.
        probability: of hitting a call that matches the conditions; drawn with the program's seed.
        model: only calls of this model.
        min_inputs: only calls with at least so many texts (a provider's 413).
        min_text_chars: only calls with a text at least so long (a provider's context limit).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: int | None = Field(default=None, ge=400, le=599)
    kind: FaultKind | None = None
    times: int | None = Field(default=None, ge=1)
    retry_after_s: float | None = Field(default=None, ge=0)
    hang_s: float = Field(default=60.0, ge=0)
    probability: float = Field(default=1.0, gt=0, le=1)
    model: str | None = None
    min_inputs: int = Field(default=1, ge=1)
    min_text_chars: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _is_one_fault(self) -> Self:
        if (self.status is None) == (self.kind is None):
            raise ValueError("a fault has either a status or a kind")
        return self

    @property
    def name(self) -> str:
        return self.kind or str(self.status)

    def matches(self, request: EmbeddingRequest) -> bool:
        return (
            self.model in {None, request.model}
            and len(request.texts) >= self.min_inputs
            and max(len(text) for text in request.texts) >= self.min_text_chars
        )


class Program(BaseModel):
    """A delay before every answer, and faults in the order they are tried: the first that hits is the call's only one.

    Attributes:
        seed: of the draws for `probability`, so that a run can be repeated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    delay_ms: float = Field(default=0.0, ge=0)
    faults: list[Fault] = []
    seed: int = 0


class RunningProgram:
    """A program and how far it has come."""

    def __init__(self, program: Program) -> None:
        self.delay_s = program.delay_ms / 1000
        self._program = program
        self._random = random.Random(program.seed)  # noqa: S311  # repeatable draws, nothing secret
        self._hits = [0] * len(program.faults)

    def next_fault(self, request: EmbeddingRequest) -> Fault | None:
        """Return the fault that hits this call, and count it."""
        for position, fault in enumerate(self._program.faults):
            spent = fault.times is not None and self._hits[position] >= fault.times
            if not spent and fault.matches(request) and self._random.random() < fault.probability:
                self._hits[position] += 1
                return fault
        return None

    def report(self) -> dict[str, object]:
        """Return the program as it was put, each fault with the `hits` it has had."""
        hit_faults = [
            {**fault.model_dump(exclude_none=True), "hits": hits}
            for fault, hits in zip(self._program.faults, self._hits, strict=True)
        ]
        return {"delay_ms": self._program.delay_ms, "seed": self._program.seed, "faults": hit_faults}
