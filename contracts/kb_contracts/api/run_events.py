"""Server-sent events of a run: what `POST /runs` with `Accept: text/event-stream` sends while the model works.

On the wire an event is two lines, `event: answer.delta` and `data: {...}`, and an empty line. Here it is one object.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from kb_contracts.api.runs import CitationView

EventName = Literal["run.started", "tool.called", "tool.returned", "answer.delta", "citation", "run.finished"]


class RunStarted(BaseModel):
    run_id: str
    model: str = Field(description="Name of the chat model.")


class ToolCalled(BaseModel):
    call_id: str
    tool: str = Field(description="Name of the tool.")
    arguments: str = Field(description="Arguments as the model wrote them: should be a JSON object.")


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


class RunFinished(BaseModel):
    """The end of a run. After an error of the service only `status` and `error` are given."""

    run_id: str | None = None
    thread_id: str | None = Field(default=None, description="Conversation of the run; null if it has none.")
    document_id: str | None = Field(default=None, description="Document that the run is about; null if about none.")
    document_truncated: bool = Field(default=False, description="Whether the model saw only the beginning of its text.")
    status: Literal["completed", "failed", "cancelled"]
    answer: str | None = Field(default=None, description="Answer of the model; null if there is none.")
    error: dict[str, Any] | None = Field(
        default=None, description="`type` and `detail` of the error; null if there is none."
    )
    citations: list[CitationView] = Field(default=[], description="Passages that the answer cites.")
    dropped_citations: int = Field(
        default=0, description="Number of citations that were removed because no passage of the run has their id."
    )
    iterations: int = Field(default=0, description="Number of calls of the model.")
    prompt_tokens: int = Field(default=0, description="Number of tokens of all prompts.")
    completion_tokens: int = Field(default=0, description="Number of tokens of all completions.")
    cost_usd: float | None = Field(
        default=None, description="Cost of the model in US dollars; null if its price is not known."
    )
    spus: int = Field(default=0, description="SPUs charged for the searches of the run.")


class RunStartedEvent(BaseModel):
    event: Literal["run.started"]
    data: RunStarted


class ToolCalledEvent(BaseModel):
    event: Literal["tool.called"]
    data: ToolCalled


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
    data: RunFinished


_DELTA: Final = {"event": "answer.delta", "data": {"iteration": 2, "text": "Employees have"}}

RunEvent = TypeAliasType(
    "RunEvent",
    Annotated[
        RunStartedEvent | ToolCalledEvent | ToolReturnedEvent | AnswerDeltaEvent | CitationEvent | RunFinishedEvent,
        Field(discriminator="event", examples=[_DELTA]),
    ],
)
"""One event of a run; `event` says which."""
