"""KBs as tools of a chat model: their description for the model, and the parsing of its calls. Pure.

The organization, the KBs and the limits never come from the model. Its arguments contain a query and filters only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from kb_contracts.api.model import StrictModel, Timestamp
from kb_contracts.api.search import MAX_NEIGHBORS, MAX_QUERY_CHARACTERS, MAX_TOP_K
from kb_contracts.text_rules import storable
from kb_search.filters.compile_filter import Criteria
from kb_search.retrieval.query import SearchQuery
from kb_search.runs.lenient_arguments import read_arguments
from kb_search.runs.written_arguments import UnusableCall, parse_arguments
from kb_shared.chat.answers.tool_names import known_name
from kb_shared.chat.completion import Tool, ToolCall

DEFAULT_TOP_K: Final = 5
MAX_DESCRIPTION_CHARACTERS: Final = 1_000

PROMPTS_TOOL: Final = "search_knowledge_base"
_PROMPTS_TOOL_DESCRIPTION: Final = (
    "Search the knowledge base for passages about a question. Returns numbered passages to cite."
)


def describe_prompts_tool(contents: Sequence[str]) -> str:
    """Describe the tool of a run by what its KBs contain, as far as they say so."""
    known = [" ".join(each.split()) for each in contents if each.strip()]
    described = " ".join([_PROMPTS_TOOL_DESCRIPTION, *(["It contains:", *known] if known else [])])
    return described[:MAX_DESCRIPTION_CHARACTERS]


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
        """Return the tool as a function-calling schema: with those parameters only that a model can fill well.

        Models copy what a description shows, so filters are described with keys that this tool can compare.
        """
        described = build_search_parameters(
            self.default_top_k, self.min_score, filterable_metadata=self.filterable_metadata
        )
        names = ("query", "top_k", *(("metadata_filter",) if self.filterable_metadata else ()))
        parameters = described | {"properties": {name: described["properties"][name] for name in names}}
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
                "description": _describe_filter(filterable_metadata),
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


def _describe_filter(filterable_metadata: Sequence[str]) -> str:
    """Describe filters without values that a model could take for its own."""
    by_name = 'To search only documents with a part of their name: {"document_name": {"$contains": "..."}}.'
    if not filterable_metadata:
        return f"{by_name} Leave it out unless the question names a document."
    example = json.dumps({filterable_metadata[0]: {"$gte": "..."}}, ensure_ascii=False)
    return (
        f"Leave it out unless the question limits the documents to search. Keys: {', '.join(filterable_metadata)}; "
        f"operators: $eq, $ne, $in, $gt, $gte, $lt, $lte, as in {example}. {by_name}"
    )


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
    notes: Sequence[str] = ()
    """Remarks about its arguments, for the model."""

    @property
    def is_filtered(self) -> bool:
        """Return whether the call searches a part of the documents only."""
        criteria = self.query.criteria
        return bool(criteria.metadata_filter or criteria.upload_date_from or criteria.upload_date_to)

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
    tool = _find_tool(call.name, tools)
    read = read_arguments(SearchArguments, parse_arguments(call.arguments, text_is="query"))
    query = read.arguments.to_query(default_top_k=tool.default_top_k, default_min_score=tool.min_score)
    return KnowledgeToolCall(tool, query, read.notes)


def _find_tool(name: str, tools: Mapping[str, KnowledgeTool]) -> KnowledgeTool:
    """Return the tool with this name, also if a model writes it as `functions.search-x()`. Raises UnusableCall."""
    tool = tools.get(known_name(name, list(tools)))
    if tool is None:
        raise UnusableCall(f"Unknown tool. Available tools: {', '.join(sorted(tools)) or 'none'}.")
    return tool
