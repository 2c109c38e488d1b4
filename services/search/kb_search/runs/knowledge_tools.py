"""KBs as tools of a chat model: their description for the model, and the parsing of its calls. Pure.

The organization, the KBs and the limits never come from the model. Its arguments contain a query and filters only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from kb_contracts import strict_json
from kb_contracts.api.model import StrictModel, Timestamp
from kb_contracts.api.search import MAX_NEIGHBORS, MAX_QUERY_CHARACTERS, MAX_TOP_K
from kb_contracts.reasons.field_reasons import describe
from kb_contracts.text_rules import storable
from kb_search.filters.compile_filter import Criteria
from kb_search.retrieval.query import SearchQuery
from kb_shared.chat.completion import Tool, ToolCall

DEFAULT_TOP_K: Final = 5
MAX_ARGUMENTS_CHARACTERS: Final = 20_000
MAX_PROBLEMS: Final = 5

PROMPTS_TOOL: Final = "search_knowledge_base"
PROMPTS_TOOL_DESCRIPTION: Final = (
    "Search the knowledge base for passages about a question. Returns numbered passages to cite."
)


Arguments = TypeVar("Arguments", bound=BaseModel)


class UnusableCall(Exception):
    """A call that can't be made; its text tells the model why."""


@dataclass(frozen=True, slots=True)
class KnowledgeTool:
    """One or several KBs as a tool of a chat model."""

    name: str
    description: str
    kb_ids: Sequence[str]
    """KBs that each call searches."""
    default_top_k: int = DEFAULT_TOP_K
    min_score: float | None = None
    """Minimum relevance, unless a call sets another; None: the setting of each KB."""
    filterable_metadata: Sequence[str] = ()
    """Metadata keys that filters can compare by order, which the description names."""

    def describe(self) -> Tool:
        """Return the tool as a function-calling schema."""
        parameters = build_search_parameters(
            self.default_top_k, self.min_score, filterable_metadata=self.filterable_metadata
        )
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


def build_search_parameters(
    default_top_k: int, default_min_score: float | None = None, *, filterable_metadata: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the JSON schema of `SearchArguments`, with descriptions for the model."""
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to search for: a sentence or a few words."},
            "top_k": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TOP_K,
                "description": f"Maximum number of passages to return; {default_top_k} by default.",
            },
            "min_score": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "description": (
                    "Minimum relevance, 0 to 1, of passages that are only similar in meaning (passages with words of "
                    f"the query are always returned); {_format_min_score(default_min_score)} by default."
                ),
            },
            "metadata_filter": {
                "type": "object",
                "description": _METADATA_FILTER + _describe_keys(filterable_metadata),
            },
            "coalesce_neighbors": {
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_NEIGHBORS,
                "description": "Number of chunks before and after each passage to return with it.",
            },
            "upload_date_from": {
                "type": "string",
                "description": "Search only documents uploaded at or after this time (RFC 3339).",
            },
            "upload_date_to": {
                "type": "string",
                "description": "Search only documents uploaded at or before this time (RFC 3339).",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


_METADATA_FILTER: Final = (
    'Search only documents with this metadata, for example {"year": {"$gte": 2025}}, or with this part of their name: '
    '{"document_name": {"$contains": "report"}}.'
)


def _describe_keys(filterable_metadata: Sequence[str]) -> str:
    if not filterable_metadata:
        return ""
    return f" Keys that can be compared with $ne, $nin, $gt, $gte, $lt and $lte: {', '.join(filterable_metadata)}."


def _format_min_score(min_score: float | None) -> str:
    return "none" if min_score is None else f"{min_score:g}"


class SearchArguments(StrictModel):
    """Arguments of a search, as a model sends them."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS), AfterValidator(storable)]
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K)] | None = None
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    metadata_filter: dict[str, Any] | None = None
    coalesce_neighbors: Annotated[int, Field(ge=0, le=MAX_NEIGHBORS)] | None = None
    upload_date_from: Timestamp | None = None
    upload_date_to: Timestamp | None = None

    def to_query(self, *, default_top_k: int, default_min_score: float | None) -> SearchQuery:
        return SearchQuery(
            text=self.query,
            top_k=self.top_k or default_top_k,
            min_score=default_min_score if self.min_score is None else self.min_score,
            coalesce_neighbors=self.coalesce_neighbors,
            criteria=Criteria(
                metadata_filter=self.metadata_filter,
                upload_date_from=self.upload_date_from,
                upload_date_to=self.upload_date_to,
            ),
        )


@dataclass(frozen=True, slots=True)
class KnowledgeToolCall:
    """A valid call of a tool."""

    tool: KnowledgeTool
    query: SearchQuery

    @property
    def key(self) -> str:
        """Return a key that is equal for equal calls."""
        criteria = self.query.criteria
        return json.dumps(
            [
                sorted(self.tool.kb_ids),
                self.query.text.strip(),
                self.query.top_k,
                self.query.min_score,
                self.query.coalesce_neighbors,
                criteria.metadata_filter,
                str(criteria.upload_date_from),
                str(criteria.upload_date_to),
            ],
            sort_keys=True,
        )


def parse_call(call: ToolCall, tools: Mapping[str, KnowledgeTool]) -> KnowledgeToolCall:
    """Parse a call of the model.

    Raises:
        UnusableCall: The tool is unknown, or the arguments are not JSON or not those of the tool.
    """
    tool = tools.get(call.name)
    if tool is None:
        raise UnusableCall(f"Unknown tool. Available tools: {', '.join(sorted(tools)) or 'none'}.")
    arguments = _parse_arguments(call.arguments)
    return KnowledgeToolCall(
        tool, arguments.to_query(default_top_k=tool.default_top_k, default_min_score=tool.min_score)
    )


def _parse_arguments(arguments: str) -> SearchArguments:
    if len(arguments) > MAX_ARGUMENTS_CHARACTERS:
        raise UnusableCall(f"The arguments have more than {MAX_ARGUMENTS_CHARACTERS} characters.")
    try:
        parsed = strict_json.parse(arguments.encode(errors="surrogatepass"))
    except ValueError as error:
        raise UnusableCall(f"The arguments are not JSON: {error}.") from None
    return check_arguments(SearchArguments, parsed)


def check_arguments(model: type[Arguments], arguments: object) -> Arguments:
    """Return the arguments of a call. Raises UnusableCall if they are not those of the tool."""
    try:
        return model.model_validate(arguments)
    except ValidationError as invalid:
        problems = describe(invalid, model, whole="arguments", most=MAX_PROBLEMS)
        raise UnusableCall(f"The arguments can't be used: {problems}.") from None
