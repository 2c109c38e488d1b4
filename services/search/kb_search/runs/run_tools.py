"""Makes the calls of a model: searches of the run's KBs only, within its budget. A repeated call is not made again."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from pymongo.errors import PyMongoError

from kb_search.filters.filter_errors import FilterError
from kb_search.retrieval.query import SearchCaller
from kb_search.retrieval.results import Result
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch, SearchAnswer
from kb_search.retrieval.spu_tally import SpuTally, tally_spus
from kb_search.runs.knowledge_tools import KnowledgeTool, KnowledgeToolCall, parse_call
from kb_search.runs.passages import CitedPassage, RunPassages, describe_passages, render_passages
from kb_search.runs.written_arguments import UnusableCall
from kb_shared.chat.completion import ToolCall
from kb_shared.chat.prompt_delimiter import PromptDelimiter
from kb_shared.errors import BudgetExhausted, KbError, NotFound, RequestError, UnknownPrice

_GONE: Final = "A knowledge base of this tool does not exist any more. Tell the user that this tool is broken."
_FAILED: Final = (
    "The search failed. Search again, or answer with what you have and say that this information is missing."
)
_NO_BUDGET: Final = "The search budget of this run is used up. Answer with what you have."
_ONLY_FILTERED: Final = "Only a part of the documents was searched: leave out the filters to search all of them."
_NOT_FILTERABLE: Final = "Search again without the filter."
_NO_MONEY: Final = "The budget of the organization does not allow another search. Answer with what you have and say so."


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call."""

    content: str
    """Text for the model."""
    passages: Sequence[CitedPassage] = ()
    omitted_count: int = 0
    spus: int = 0
    problem: str | None = None
    """Description of what failed, in the whole call or a part of it."""
    from_memory: bool = False
    """True if the result of an earlier, equal call was used."""

    @property
    def fields(self) -> dict[str, Any]:
        """Return the result as fields, as `render_passages` shows them to the model."""
        return describe_passages(self.passages, omitted_count=self.omitted_count)


class RunTools:
    """The tools of one run."""

    def __init__(
        self,
        search: KnowledgeBaseSearch,
        organization_id: str,
        *,
        search_caller: SearchCaller,
        tools: Sequence[KnowledgeTool],
        delimiter: PromptDelimiter,
        max_spus: int,
        max_passage_tokens: int,
    ) -> None:
        """Construct it.

        Args:
            search: Search of this process.
            organization_id: Organization of the key that started the run.
            search_caller: This key and the run, for the query log.
            tools: Tools of the run's prompt or agent.
            delimiter: Delimiter around passages.
            max_spus: Maximum cost of all searches together.
            max_passage_tokens: Maximum number of tokens of the passages of one call.
        """
        self.passages = RunPassages()
        self._search = search
        self._organization_id = organization_id
        self._search_caller = search_caller
        self._tools: Mapping[str, KnowledgeTool] = {tool.name: tool for tool in tools}
        self._delimiter = delimiter
        self._spus_left = max_spus
        self._max_passage_tokens = max_passage_tokens
        self._tallies: list[SpuTally] = []
        self._calls_by_key: dict[str, asyncio.Task[ToolResult]] = {}
        self.has_searched = False
        """True once a call could be made, whatever it found."""

    @property
    def spus(self) -> int:
        """Return the SPUs charged for all searches so far, including failed ones."""
        return sum(tally.spus for tally in self._tallies)

    @property
    def has_spus(self) -> bool:
        """Return whether the budget allows another search of one KB."""
        return self._spus_left > 0

    @contextmanager
    def counting_spus(self) -> Iterator[None]:
        """Count what is charged within the block as spent by the run."""
        with tally_spus() as tally:
            self._tallies.append(tally)
            try:
                yield
            finally:
                self._spus_left -= tally.spus

    async def call(self, call: ToolCall) -> ToolResult:
        """Make one call. An error of the call is described in the result, for the model, and not raised."""
        try:
            parsed = parse_call(call, self._tools)
        except UnusableCall as error:
            return ToolResult(str(error), problem=str(error))
        self.has_searched = True
        if (earlier := self._calls_by_key.get(parsed.key)) is not None:
            return replace(await asyncio.shield(earlier), spus=0, from_memory=True)
        task = self._calls_by_key[parsed.key] = asyncio.create_task(self._search_for(parsed))
        result = await task
        # A call that failed may succeed when it is made again.
        if result.problem is not None:
            del self._calls_by_key[parsed.key]
        return result

    async def _search_for(self, call: KnowledgeToolCall) -> ToolResult:
        kb_ids = call.tool.kb_ids
        # Embedding the query costs at most one SPU in each KB.
        if self._spus_left < len(kb_ids):
            return ToolResult(_NO_BUDGET, problem=_NO_BUDGET)
        self._spus_left -= len(kb_ids)
        query = replace(call.query, max_tokens=self._max_passage_tokens)
        with tally_spus() as tally:
            self._tallies.append(tally)
            try:
                answer = await self._search.search_several(
                    self._organization_id, kb_ids=kb_ids, query=query, search_caller=self._search_caller, key=None
                )
            except (KbError, PyMongoError) as error:
                log.warning("run.search_failed", run_id=self._search_caller.run_id, error_type=type(error).__name__)
                # More may have been charged than this process knows, so the whole reservation counts as spent.
                return ToolResult(_describe_error(error), problem=_describe_error(error), spus=tally.spus)
        self._spus_left += len(kb_ids) - answer.spu_charged
        return self._build_result(answer, call)

    def _build_result(self, answer: SearchAnswer, call: KnowledgeToolCall) -> ToolResult:
        problem = " ".join(dict.fromkeys(map(_describe_error, answer.failures.values()))) or None
        passages = [self.passages.add(_passage_from(result)) for result in answer.fitted.results]
        omitted_count = answer.fitted.omitted_count
        content = render_passages(passages, omitted_count=omitted_count, delimiter=self._delimiter)
        notes = [_ONLY_FILTERED] if not passages and call.is_filtered else []
        return ToolResult(
            "\n".join([*([problem] if problem else []), content, *notes, *call.notes]),
            passages,
            omitted_count,
            spus=answer.spu_charged,
            problem=problem,
        )


def _describe_error(error: Exception) -> str:
    """Describe a failed search to the model."""
    match error:
        case NotFound():
            return _GONE
        case FilterError():
            return f"{error.detail} {_NOT_FILTERABLE}"
        case RequestError():
            return error.detail
        case BudgetExhausted() | UnknownPrice():
            return _NO_MONEY
        case _:
            return _FAILED


def _passage_from(result: Result) -> CitedPassage:
    chunk = result.chunk
    return CitedPassage(
        number=0,
        citation=chunk.chunk_id,
        kb_id=result.kb.kb_id,
        document_id=chunk.document_id,
        document_name=chunk.document_name,
        chunk_index=chunk.chunk_index,
        page_start=chunk.page_start,
        page_end=chunk.page_end,
        relevance=result.hit.relevance if result.hit is not None else None,
        truncated=result.truncated,
        text=result.text,
        start=chunk.start,
        end=chunk.end,
        heading_path=tuple(chunk.heading_path),
        also_in=tuple(result.also_in),
    )
