"""Server-sent events of a run: what `POST /runs` with `Accept: text/event-stream` sends while the model works.

On the wire an event is two lines, `event: answer.delta` and `data: {...}`, and an empty line. Here it is one object.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from kb_contracts.api.runs import CitationView, RunView

EventName = Literal[
    "run.started", "tool.called", "passage", "tool.returned", "answer.delta", "citation", "run.finished"
]


class RunStarted(BaseModel):
    run_id: str
    model: str = Field(description="Name of the chat model.")


class ToolCalled(BaseModel):
    call_id: str
    tool: str = Field(description="Name of the tool.")
    arguments: str = Field(description="Arguments as the model wrote them: should be a JSON object.")


class FoundPassage(CitationView):
    """A passage that a search of the run has found. The answer may cite it."""

    call_id: str = Field(description="Call of the tool that found it.")


class ToolReturned(ToolCalled):
    passages: list[CitationView] = Field(description="Passages that the call found.")
    omitted_count: int = Field(description="Number of passages that did not fit.")
    problem: str | None = Field(description="Description of what failed; null if nothing did.")
    from_memory: bool = Field(description="Whether the result of an earlier, equal call was used.")
    spus: int = Field(description="SPUs charged for the call.")
    duration_ms: float


class AnswerDelta(BaseModel):
    iteration: int = Field(description="Number of the call of the model, from 1.")
    text: str = Field(description="Next piece of the text.")


class CrashedRun(BaseModel):
    """A run that ended because of an error of the service, which is all that is known of it."""

    status: Literal["failed"]
    error: dict[str, Any] = Field(description="`type` of the error.")


class RunStartedEvent(BaseModel):
    event: Literal["run.started"]
    data: RunStarted


class ToolCalledEvent(BaseModel):
    event: Literal["tool.called"]
    data: ToolCalled


class PassageEvent(BaseModel):
    event: Literal["passage"]
    data: FoundPassage


class ToolReturnedEvent(BaseModel):
    event: Literal["tool.returned"]
    data: ToolReturned


class AnswerDeltaEvent(BaseModel):
    event: Literal["answer.delta"]
    data: AnswerDelta


class CitationEvent(BaseModel):
    event: Literal["citation"]
    data: CitationView


class RunFinishedEvent(BaseModel):
    event: Literal["run.finished"]
    data: RunView | CrashedRun


_DELTA: Final = {"event": "answer.delta", "data": {"iteration": 2, "text": "Employees have"}}

RunEvent = TypeAliasType(
    "RunEvent",
    Annotated[
        RunStartedEvent
        | ToolCalledEvent
        | PassageEvent
        | ToolReturnedEvent
        | AnswerDeltaEvent
        | CitationEvent
        | RunFinishedEvent,
        Field(discriminator="event", examples=[_DELTA]),
    ],
)
"""One event of a run; `event` says which."""
