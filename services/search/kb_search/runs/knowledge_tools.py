"""KBs as tools of a model: what it is told of them, and what it may ask. Pure.

Organization, KBs and limits never come from what a model writes: its arguments say what to look for, nothing more.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from kb_contracts.documents import Text
from kb_search.filters.compile_filter import Criteria
from kb_search.retrieval.query import MAX_NEIGHBORS, MAX_TOP_K, SearchQuery
from kb_search.search_request import MAX_QUERY_CHARACTERS
from kb_shared.chat.completion import Tool, ToolCall
from kb_shared.http import strict_json
from kb_shared.http.model import Model, Timestamp

DEFAULT_TOP_K: Final = 5
MAX_ARGUMENTS_CHARACTERS: Final = 20_000
MAX_PROBLEMS: Final = 5

PROMPTS_TOOL: Final = "search_knowledge_base"
PROMPTS_TOOL_DESCRIPTION: Final = (
    "Search the knowledge base for passages about a question. Returns numbered passages to cite."
)


class UnusableCall(Exception):
    """`str()` tells the model what was wrong."""


@dataclass(frozen=True, slots=True)
class KnowledgeTool:
    name: str
    description: str
    kb_ids: Sequence[str]
    """All are searched."""
    default_top_k: int = DEFAULT_TOP_K
    min_score: float | None = None
    """Minimum relevance, unless a call sets another; None: the setting of each KB."""

    def describe(self) -> Tool:
        """The function-calling schema of the tool."""
        parameters = build_search_parameters(self.default_top_k, self.min_score)
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


def build_search_parameters(default_top_k: int, default_min_score: float | None = None) -> dict[str, Any]:
    """The JSON schema of `SearchArguments`, as models are told of it."""
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in a sentence or a few words."},
            "top_k": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TOP_K,
                "description": f"How many passages; {default_top_k} by default.",
            },
            "min_score": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "description": (
                    "Least relevance of passages that are only similar in meaning (those with words of the query "
                    f"always come); {_written(default_min_score)} by default."
                ),
            },
            "metadata_filter": {
                "type": "object",
                "description": 'Only documents whose metadata is so, such as {"year": {"$gte": 2025}}.',
            },
            "coalesce_neighbors": {
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_NEIGHBORS,
                "description": "How many chunks before and after each passage come along.",
            },
            "upload_date_from": {"type": "string", "description": "RFC 3339; only documents since then."},
            "upload_date_to": {"type": "string", "description": "RFC 3339; only documents until then."},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def _written(min_score: float | None) -> str:
    return "none" if min_score is None else f"{min_score:g}"


class SearchArguments(Model):
    """Arguments of a search, as a model sends them."""

    query: Annotated[Text, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
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
    """A call that can be made."""

    tool: KnowledgeTool
    query: SearchQuery

    @property
    def key(self) -> str:
        """The same for calls that ask the same."""
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
    """Read a call.

    Raises:
        UnusableCall: an unknown tool, no JSON, or arguments that the tool does not take.
    """
    tool = tools.get(call.name)
    if tool is None:
        raise UnusableCall(f"There is no such tool. There are: {', '.join(sorted(tools)) or 'none'}.")
    arguments = _arguments(call.arguments)
    return KnowledgeToolCall(
        tool, arguments.to_query(default_top_k=tool.default_top_k, default_min_score=tool.min_score)
    )


def _arguments(written: str) -> SearchArguments:
    if len(written) > MAX_ARGUMENTS_CHARACTERS:
        raise UnusableCall(f"The arguments have more than {MAX_ARGUMENTS_CHARACTERS} characters.")
    try:
        parsed = strict_json.parse(written.encode(errors="surrogatepass"))
    except ValueError as error:
        raise UnusableCall(f"The arguments are no JSON: {error}.") from None
    try:
        return SearchArguments.model_validate(parsed)
    except ValidationError as invalid:
        raise UnusableCall(describe_problems(invalid)) from None


def describe_problems(invalid: ValidationError) -> str:
    """Describe wrong arguments of a tool to the model."""
    problems = [
        f"{'.'.join(map(str, error['loc']))[:100] or 'arguments'}: {error['msg']}"
        for error in invalid.errors(include_url=False, include_context=False, include_input=False)[:MAX_PROBLEMS]
    ]
    return f"The arguments can't be used: {'; '.join(problems)}."
