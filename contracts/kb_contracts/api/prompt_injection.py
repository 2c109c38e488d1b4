"""Injection of knowledge into the prompts of runs, by agents and prompts."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

from kb_contracts.api.model import StrictModel
from kb_contracts.knowledge.entities import EntityId
from kb_contracts.knowledge.entry_fields import InfoType
from kb_contracts.knowledge.formatters.section_formatters import FormatterTemplate
from kb_contracts.knowledge.graph import MAX_DEPTH
from kb_contracts.knowledge.prompt_template import FeedConflictResolution
from kb_contracts.reasons.field_reasons import wrong_field
from kb_contracts.text_rules import storable

MAX_TEMPLATE_CHARACTERS: Final = 20_000
MAX_ATTRIBUTE_CHARACTERS: Final = 20_000
MAX_VARIABLES: Final = 50
MAX_ATTACHMENT_CHARACTERS: Final = 100_000
MAX_FORMATTERS: Final = 20
MAX_INJECTED_PIECES: Final = 20

KnowledgeMode: TypeAlias = Literal["none", "static", "dynamic"]
PromptTemplate: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_TEMPLATE_CHARACTERS,
        description="Text that replaces the question. `{{ user_input }}` stands for the question, "
        "`{{ user_profile }}`, `{{ instructions }}`, `{{ context }}`, `{{ skills }}` and any other info type for "
        "knowledge of this type, "
        "`{{ action_result }}` for the result of the last tool call, `{{ action_memory }}` for the part of it that "
        "`memory` selects, `{{ attachments }}` and names of `variables` for what the request passes. What is missing "
        "is empty. Default, if knowledge is injected: all of the first six, one below the other.",
    ),
    AfterValidator(storable),
]
Attribute: TypeAlias = Annotated[str, Field(max_length=MAX_ATTRIBUTE_CHARACTERS), AfterValidator(storable)]
MemoryPath: TypeAlias = Annotated[
    str,
    StringConstraints(max_length=200, pattern=r"^\$(\.[A-Za-z_][A-Za-z0-9_]*|\[\d{1,4}\])*$"),
    Field(
        description="JSON path of the part of a tool result that `{{ action_memory }}` stands for, such as "
        "`$.passages[0].text`. Results have `passages` (with `id`, `document` and `text`) and `omitted_count`."
    ),
]
VariableName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,39}$")]
Variables: TypeAlias = Annotated[
    dict[VariableName, Annotated[str, Field(max_length=MAX_ATTRIBUTE_CHARACTERS), AfterValidator(storable)]],
    Field(max_length=MAX_VARIABLES, description="Values of further placeholders of the template, by name."),
]
Attachments: TypeAlias = Annotated[
    str,
    Field(max_length=MAX_ATTACHMENT_CHARACTERS, description="Text for the placeholder `{{ attachments }}`."),
    AfterValidator(storable),
]


class KnowledgeInjection(StrictModel):
    """Choice of the knowledge that runs see without searching for it."""

    mode: KnowledgeMode = Field(
        "none",
        description="`none`: nothing is injected. `static`: the properties of the entity and of the global record, and "
        "the pieces that are linked to the entity, read once. `dynamic`: also the pieces that a search for the "
        "question finds, each time that the model is called; a question costs one embedding in a run.",
    )
    entity_id: EntityId | None = Field(None, description="Entity whose knowledge is injected, such as `user:alice`.")
    entity_from: Literal["request"] | None = Field(
        None, description="`request`: the entity is `entity_id` of the run. Send either this or `entity_id`."
    )
    top_k: int = Field(
        5, ge=1, le=MAX_INJECTED_PIECES, description="Greatest number of pieces that the search finds. Default: 5."
    )
    depth: int = Field(
        1, ge=0, le=MAX_DEPTH, description="Number of edges to follow from the node of the entity. Default: 1."
    )
    formatters: Annotated[dict[InfoType, FormatterTemplate], Field(max_length=MAX_FORMATTERS)] = Field(
        default_factory=dict, description="Templates that write the sections of info types."
    )
    feed_conflict_resolution: FeedConflictResolution = Field(
        "feed_only",
        description="Choice if there is both knowledge and a value of the same name, such as `user_profile`: "
        "`feed_only` uses the knowledge, `attribute_only` the value, `merge` the value, a newline and the knowledge.",
    )

    @model_validator(mode="after")
    def _has_one_entity(self) -> "KnowledgeInjection":
        if self.entity_id is not None and self.entity_from is not None:
            raise wrong_field("entity_from", message="must be left out with entity_id")
        return self


class PromptInjection(StrictModel):
    """Template and knowledge that agents and prompts put into the prompts of their runs."""

    template: PromptTemplate | None = None
    knowledge: KnowledgeInjection = Field(
        default=KnowledgeInjection(), description="Knowledge that runs see without searching for it."
    )
    user_profile: Attribute = Field("", description="Value of `{{ user_profile }}`.")
    context: Attribute = Field("", description="Value of `{{ context }}`.")
    memory: MemoryPath | None = None

    @property
    def is_used(self) -> bool:
        """Return whether it changes the prompts of runs at all."""
        return self.template is not None or self.knowledge.mode != "none" or bool(self.user_profile or self.context)


class KnowledgeInjectionView(BaseModel):
    mode: KnowledgeMode = Field(description="Knowledge that runs see without searching for it; `none`: nothing.")
    entity_id: str | None = Field(description="Entity whose knowledge is injected; null: none, or that of the run.")
    entity_from: Literal["request"] | None = Field(description="`request`: the entity is `entity_id` of the run.")
    top_k: int = Field(description="Greatest number of pieces that the search finds.")
    depth: int = Field(description="Number of edges to follow from the node of the entity.")
    formatters: dict[str, FormatterTemplate] = Field(description="Templates that write the sections of info types.")
    feed_conflict_resolution: FeedConflictResolution = Field(
        description="Choice if there is both knowledge and a value of the same name."
    )


class PromptInjectionView(BaseModel):
    template: str | None = Field(description="Text that replaces the question; null: the default, if it is needed.")
    knowledge: KnowledgeInjectionView
    user_profile: str = Field(description="Value of `{{ user_profile }}`.")
    context: str = Field(description="Value of `{{ context }}`.")
    memory: str | None = Field(description="JSON path of the part of a tool result that `{{ action_memory }}` shows.")
