"""What a run takes over HTTP."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from kb_contracts.documents import Text
from kb_contracts.identifiers import Identifier
from kb_shared.http.model import Model

MAX_MESSAGES: Final = 50
MAX_MESSAGE_CHARACTERS: Final = 100_000
MAX_KNOWLEDGE_BASES: Final = 20
MAX_ITERATIONS: Final = 10


ObjectId = Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]
KbIds = Annotated[list[ObjectId], Field(max_length=MAX_KNOWLEDGE_BASES)]
ModelName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="Of a chat model that this deployment allows; for another the answer is 422 `model-not-allowed` "
        "with `allowed_models`.",
    ),
]
MaxIterations = Annotated[int, Field(ge=1, le=MAX_ITERATIONS)]


class RunMessage(Model):
    role: Literal["user", "assistant"]
    content: Annotated[Text, Field(min_length=1, max_length=MAX_MESSAGE_CHARACTERS)]


class RunBudget(Model):
    """Less than what the deployment allows; what is left out is as the deployment has it."""

    max_tokens: int | None = Field(None, ge=1, description="Of all prompts and completions together.")
    max_spus: int | None = Field(None, ge=0, description="Of all searches together.")
    max_seconds: float | None = Field(None, gt=0)


class RunRequest(Model):
    """One of `prompt_id`, `agent_id` or `messages` with `kb_id` or `kb_ids` says what is searched and how."""

    prompt_id: ObjectId | None = None
    agent_id: ObjectId | None = None
    messages: Annotated[list[RunMessage], Field(max_length=MAX_MESSAGES)] = Field(
        default=[], description="The question, as the last message, of role `user`."
    )
    thread_id: ObjectId | None = Field(None, description="Continue this conversation.")
    document_id: Identifier | None = Field(
        None,
        description="Ask about this document of the organization, in whichever knowledge base it is or none: the model "
        "sees its text, or the beginning of a long one, before the question. The key needs the scope `read`, too.",
    )
    kb_id: ObjectId | None = None
    kb_ids: KbIds | None = None
    model: ModelName | None = Field(
        None, description="Of a run of `messages` alone: a chat model that this deployment allows."
    )
    response_schema: dict[str, Any] | None = Field(None, description="JSON schema of the answer.")
    clean_strings: bool = Field(
        default=True,
        description="Write addresses that the run was not given, Markdown links and images, and HTML tags in the "
        "strings of an answer by a schema so that no program follows them; leave out citations of what was not found. "
        "It is always done in other answers.",
    )
    max_iterations: MaxIterations | None = None
    budget: RunBudget = RunBudget()

    @model_validator(mode="after")
    def _is_one_run(self) -> "RunRequest":
        if self.prompt_id and self.agent_id:
            raise ValueError("give prompt_id or agent_id, not both")
        if self.kb_id is not None and self.kb_ids is not None:
            raise ValueError("give kb_id or kb_ids, not both")
        if (self.prompt_id or self.agent_id) and self.model:
            raise ValueError("the model is that of the prompt or agent; leave it out")
        if self.agent_id and (self.kb_id or self.kb_ids is not None):
            raise ValueError("an agent searches with its tools; leave kb_id and kb_ids out")
        if not self.messages and not self.prompt_id:
            raise ValueError("messages are missing")
        if self.messages and self.messages[-1].role != "user":
            raise ValueError("the last message must be the user's")
        return self

    @property
    def named_kb_ids(self) -> list[str] | None:
        """None: those of the prompt."""
        return [self.kb_id] if self.kb_id is not None else self.kb_ids
