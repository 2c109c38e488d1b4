"""Request body of a run."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from kb_contracts.documents import Text
from kb_contracts.identifiers import Identifier
from kb_shared.http.model import StrictModel

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
        description="Name of a chat model that this deployment allows. Another one is refused with 422 "
        "`model-not-allowed`, which lists `allowed_models`.",
    ),
]
MaxIterations = Annotated[int, Field(ge=1, le=MAX_ITERATIONS)]


class RunMessage(StrictModel):
    role: Literal["user", "assistant"]
    content: Annotated[Text, Field(min_length=1, max_length=MAX_MESSAGE_CHARACTERS)] = Field(
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
    budget: RunBudget = Field(default=RunBudget(), description="Limits of this run, at most those of the deployment.")

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
        """Return the knowledge bases of the request; None means those of the prompt."""
        return [self.kb_id] if self.kb_id is not None else self.kb_ids
