"""Runs: a chat model searches and answers."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, model_validator

from kb_contracts.api.model import NextCursor, ObjectId, StrictModel, example
from kb_contracts.api.prompt_injection import Attachments, Variables
from kb_contracts.api.search import PassageCopy
from kb_contracts.identifiers import Identifier
from kb_contracts.knowledge.entities import EntityId
from kb_contracts.reasons.field_reasons import wrong_field
from kb_contracts.text_rules import storable

MAX_MESSAGES: Final = 50
MAX_MESSAGE_CHARACTERS: Final = 100_000
MAX_KNOWLEDGE_BASES: Final = 20
MAX_ITERATIONS: Final = 10

KbIds = Annotated[list[ObjectId], Field(max_length=MAX_KNOWLEDGE_BASES)]
ModelName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="Name of a chat model that this deployment allows. Another one is refused with 422 "
        "`model-not-allowed`, which lists `allowed_models`.",
    ),
]
MaxIterations = Annotated[int, Field(ge=1, le=MAX_ITERATIONS)]
AutoSearch = Annotated[
    bool,
    Field(
        description="Whether a run searches with its question, once with each tool, before the model speaks. The model "
        "then gets the passages and no tools. A run that has tools and did not search is searched for in the same way, "
        "and its model is asked again."
    ),
]


Grounded: TypeAlias = Literal["cited", "received", "none"]
Temperature = Annotated[
    float,
    Field(
        ge=0,
        le=2,
        description="How freely the model chooses words: 0 as little as possible, 1 as it was trained. null: 0.2, but "
        "not for models that reason, which choose it themselves.",
    ),
]
MaxOutputTokens = Annotated[
    int,
    Field(
        ge=1,
        le=1_000_000,
        description="Greatest number of tokens of one answer of the model, its reasoning included. null: that of the "
        "deployment.",
    ),
]


_CITATION: Final = {
    "number": 1,
    "chunk_id": "handbook:5f2b1c9e8d7a6b4c3d2e1f00:0",
    "citation": "handbook:5f2b1c9e8d7a6b4c3d2e1f00:0",
    "kb_id": "65f1c2a3b4d5e6f708192a3b",
    "document_id": "handbook",
    "source": "handbook.pdf",
    "chunk_index": 0,
    "page_start": 3,
    "page_end": 3,
    "relevance": 0.83,
    "start": 0,
    "end": 39,
    "heading_path": ["Leave"],
    "text": "Employees have 30 days of leave a year.",
    "truncated": False,
    "also_in": [],
}
_QUESTION: Final = {"role": "user", "content": "How many days of leave are there?"}
_RUN: Final = {
    "run_id": "65f1c2a3b4d5e6f708192a42",
    "thread_id": None,
    "prompt_id": None,
    "agent_id": None,
    "document_id": None,
    "document_name": None,
    "document_truncated": False,
    "key_id": "3f9c1d2e4b5a6978",
    "origin": "sdk",
    "kb_ids": ["65f1c2a3b4d5e6f708192a3b"],
    "feedback": None,
    "model": "gpt-4o-mini",
    "status": "completed",
    "question": [_QUESTION],
    "answer": "Employees have 30 days of leave a year [1].",
    "error": None,
    "citations": [_CITATION],
    "dropped_citations": 0,
    "grounded": "cited",
    "iterations": 2,
    "prompt_tokens": 1480,
    "completion_tokens": 96,
    "cost_usd": 0.00028,
    "spus": 1,
    "started_at": "2026-01-31T12:00:00Z",
    "finished_at": "2026-01-31T12:00:05Z",
}


class RunMessage(StrictModel):
    role: Literal["user", "assistant"]
    content: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE_CHARACTERS), AfterValidator(storable)] = Field(
        description="Text of the message."
    )


class RunBudget(StrictModel):
    """Limits of a run, at most those of the deployment, which apply by default."""

    max_tokens: int | None = Field(
        None, ge=1, description="Greatest number of tokens of all prompts and completions together."
    )
    max_spus: int | None = Field(None, ge=0, description="Greatest number of SPUs of all searches together.")
    max_seconds: float | None = Field(None, gt=0, description="Greatest duration in seconds.")


class RunRequest(StrictModel):
    """A run of a prompt (`prompt_id`), of an agent (`agent_id`), or of `messages` with `kb_id` or `kb_ids`."""

    model_config = example({"messages": [_QUESTION], "kb_ids": ["65f1c2a3b4d5e6f708192a3b"]})

    prompt_id: ObjectId | None = Field(default=None, description="Prompt to run.")
    agent_id: ObjectId | None = Field(default=None, description="Agent to run.")
    messages: Annotated[list[RunMessage], Field(max_length=MAX_MESSAGES)] = Field(
        default=[], description="Messages of the conversation. The last one is the question, with the role `user`."
    )
    thread_id: ObjectId | None = Field(None, description="Conversation to continue.")
    document_id: Identifier | None = Field(
        None,
        description="Document of the organization to ask about, in any knowledge base or in none. The model sees its "
        "text, or the beginning of a long text, before the question. The key also needs the scope `read`.",
    )
    kb_id: ObjectId | None = Field(default=None, description="Knowledge base to search. Send either this or `kb_ids`.")
    kb_ids: KbIds | None = Field(default=None, description="Knowledge bases to search, at most 20.")
    model: ModelName | None = Field(
        None,
        description="Name of an allowed chat model, for a run without prompt and agent. Default: that of the "
        "deployment.",
    )
    response_schema: dict[str, Any] | None = Field(None, description="JSON schema of the answer.")
    clean_strings: bool = Field(
        default=True,
        description="If true, strings of a JSON answer are cleaned: links, images, HTML tags and unknown addresses are "
        "neutralized, unknown citations removed. Text answers are always cleaned.",
    )
    max_iterations: MaxIterations | None = Field(default=None, description="Greatest number of calls of the model.")
    auto_search: AutoSearch | None = Field(
        default=None,
        description="Whether to search with the question before the model speaks. Default: as the prompt or agent "
        "says; false without one.",
    )
    entity_id: EntityId | None = Field(
        default=None,
        description="Entity whose knowledge is injected, if the prompt or agent says `entity_from: request`.",
    )
    variables: Variables = Field(default_factory=dict)
    attachments: Attachments = ""
    budget: RunBudget = Field(default=RunBudget(), description="Limits of this run, at most those of the deployment.")

    @model_validator(mode="after")
    def _is_one_run(self) -> "RunRequest":
        if self.prompt_id and self.agent_id:
            raise wrong_field("agent_id", message="must be left out with prompt_id")
        if self.kb_id is not None and self.kb_ids is not None:
            raise wrong_field("kb_ids", message="must be left out with kb_id")
        if (self.prompt_id or self.agent_id) and self.model:
            raise wrong_field("model", message="must be left out: it is that of the prompt or agent")
        if self.agent_id and (self.kb_id or self.kb_ids is not None):
            named = "kb_id" if self.kb_id else "kb_ids"
            raise wrong_field(named, message="must be left out: an agent searches with its tools")
        if not self.messages and not self.prompt_id:
            raise wrong_field("messages", message="is missing")
        if self.messages and self.messages[-1].role != "user":
            last = len(self.messages) - 1
            raise wrong_field("messages", last, "role", message='must be "user" in the last message')
        return self

    @property
    def named_kb_ids(self) -> list[str] | None:
        """Return the knowledge bases of the request; None means those of the prompt."""
        return [self.kb_id] if self.kb_id is not None else self.kb_ids


class CitationView(BaseModel):
    """A passage that the answer cites as `[number]`. A search of this run returned it."""

    number: int = Field(description="Number of the citation in the answer, `[number]`.")
    chunk_id: str = Field(
        description="Stable id of the passage: it means the same text, even after the document has changed. `GET "
        "/knowledge-bases/{kb_id}/chunks/{chunk_id}` opens it."
    )
    citation: str = Field(description="Same as `chunk_id`.")
    kb_id: str
    document_id: str
    source: str = Field(description="Name of the document.")
    chunk_index: int = Field(description="Position of the chunk in its document, from 0.")
    page_start: int | None = Field(description="First page of the passage; null if there are no pages.")
    page_end: int | None = Field(description="Last page of the passage; null if there are no pages.")
    relevance: float | None = Field(description="Relevance from 0 to 1; null if no vectors were compared.")
    start: int | None = Field(
        description="Position of the first character of the passage in the text of the document; null in runs of older "
        "versions, here and below."
    )
    end: int | None = Field(description="Position after the last character of the passage in the text of the document.")
    heading_path: list[str] = Field(description="Headings above the passage, outermost first.")
    text: str | None = Field(description="Text of the passage, kept with the run.")
    truncated: bool = Field(description="Whether `text` is only the beginning of the passage.")
    also_in: list[PassageCopy] = Field(
        default=[], description="Other places with the same text, such as copies of the file, when the run searched."
    )
    document_deleted: bool = Field(
        default=False, description="Whether the document has been deleted since. The run keeps the text of the passage."
    )


RunRating: TypeAlias = Literal["up", "down"]


class RunFeedback(StrictModel):
    """Judgement of a person on the answer of a run."""

    model_config = example({"rating": "up", "comment": "Right, and it cites the current handbook."})

    rating: RunRating
    comment: Annotated[str, Field(max_length=2_000), AfterValidator(storable)] = Field(
        default="", description="Reason in words."
    )


WantedRunStatus: TypeAlias = Literal["running", "completed", "failed", "cancelled", "lost"]


class RunSummary(BaseModel):
    model_config = example(_RUN)

    run_id: str
    thread_id: str | None = Field(description="Conversation of the run; null if it has none.")
    prompt_id: str | None = Field(description="Prompt of the run; null if it has none.")
    agent_id: str | None = Field(description="Agent of the run; null if it has none.")
    document_id: str | None = Field(description="Document that the run is about; null if it is about none.")
    document_name: str | None = Field(description="Name of the document at the time of the run.")
    document_truncated: bool = Field(
        description="Whether the model saw only the beginning of the text of the document."
    )
    key_id: str = Field(description="Id of the API key that started the run.")
    origin: str | None = Field(
        description="Kind of client that started the run, as it said in `X-KB-Origin`; null in runs of older versions."
    )
    kb_ids: list[str] = Field(description="Knowledge bases that the run could search; empty in runs of older versions.")
    feedback: RunFeedback | None = Field(description="Judgement of a person on the answer; null if there is none.")
    model: str = Field(description="Name of the chat model.")
    status: str = Field(
        description="`running`, `completed`, `failed`, `cancelled`, or `lost` if the process ended before the run."
    )
    question: list[dict[str, Any]] = Field(description="Messages that the caller sent.")
    answer: str | None = Field(description="Answer of the model; null if there is none.")
    error: dict[str, Any] | None = Field(description="`type` and `detail` of the error; null if there is none.")
    citations: list[CitationView] = Field(description="Passages that the answer cites.")
    dropped_citations: int = Field(
        description="Number of citations that were removed because no passage of the run has their id."
    )
    grounded: Grounded | None = Field(
        default=None,
        description="What the answer rests on. `cited`: it cites a passage. `received`: the model was given passages, "
        "a document or knowledge, and its answer cites no passage: they may not say this. `none`: the model was given "
        "nothing of the organization. null: there is no answer, or the run is of an older version.",
    )
    iterations: int = Field(description="Number of calls of the model.")
    prompt_tokens: int = Field(description="Number of tokens of all prompts.")
    completion_tokens: int = Field(description="Number of tokens of all completions.")
    cost_usd: float | None = Field(description="Cost of the model in US dollars; null if its price is not known.")
    spus: int = Field(description="SPUs charged for the searches of the run.")
    started_at: datetime
    finished_at: datetime | None = Field(description="End of the run; null while it is running.")


class InjectedKnowledge(BaseModel):
    """Text that was injected into a call of the model."""

    iteration: int = Field(description="Number of the call of the model, from 1.")
    text: str = Field(description="The whole message that stood in place of the question.")
    piece_ids: list[str] = Field(description="Pieces of knowledge in it.")


class RunView(RunSummary):
    """A run with all messages and tool calls."""

    model_config = example(
        {
            **_RUN,
            "messages": [_QUESTION, {"role": "assistant", "content": "Employees have 30 days of leave a year [1]."}],
            "tool_calls": [],
        }
    )

    messages: list[dict[str, Any]] = Field(description="All messages exchanged with the model.")
    tool_calls: list[dict[str, Any]] = Field(description="Calls of tools, with arguments and results.")
    injections: list[InjectedKnowledge] = Field(
        default=[], description="Knowledge that was injected, once for each call of the model in which it changed."
    )


class RunList(BaseModel):
    model_config = example({"runs": [_RUN], "total_count": 1, "next_cursor": None})

    runs: list[RunSummary]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor
