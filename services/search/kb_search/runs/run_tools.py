"""Making a model's calls: searches of this run's KBs and of nothing else, within its budget, each question once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_search.retrieval.query import SearchCaller
from kb_search.retrieval.results import Result
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch, SearchAnswer
from kb_search.retrieval.spu_tally import SpuTally, tally_spus
from kb_search.runs.knowledge_tools import KnowledgeTool, KnowledgeToolCall, UnusableCall, parse_call
from kb_search.runs.passages import CitedPassage, PassageBook, PromptDelimiter, shown
from kb_shared.chat.completion import ToolCall
from kb_shared.errors import BudgetExhausted, KbError, NotFound, RequestError, UnknownPrice

_GONE: Final = "A knowledge base of this tool does not exist any more; tell the user that its tool is broken."
_FAILED: Final = "The search failed for now. Search again, or answer with what you have and say that this is missing."
_NO_BUDGET: Final = "The budget of searches of this run is used up. Answer with what you have."
_NO_MONEY: Final = "The organization's budget has no room for a search. Answer with what you have and say so."


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call."""

    content: str
    """For the model."""
    passages: Sequence[CitedPassage] = ()
    omitted_count: int = 0
    spus: int = 0
    problem: str | None = None
    """Description of what failed, in all of the call or in a part."""
    from_memory: bool = False


class RunTools:
    """The tools of one run."""

    def __init__(
        self,
        search: KnowledgeBaseSearch,
        organization_id: str,
        search_caller: SearchCaller,
        tools: Sequence[KnowledgeTool],
        *,
        delimiter: PromptDelimiter,
        max_spus: int,
        max_passage_tokens: int,
    ) -> None:
        """Wire it.

        Args:
            search: made for all.
            organization_id: of the key that the run was asked for with.
            search_caller: that key, and the run.
            tools: of the run's prompt or agent.
            fence: around passages.
            max_spus: that all searches together may cost.
            max_passage_tokens: of the passages of one call.
        """
        self.book = PassageBook()
        self._search = search
        self._organization_id = organization_id
        self._search_caller = search_caller
        self._tools: Mapping[str, KnowledgeTool] = {tool.name: tool for tool in tools}
        self._fence = delimiter
        self._spus_left = max_spus
        self._max_passage_tokens = max_passage_tokens
        self._tallies: list[SpuTally] = []
        self._made: dict[str, asyncio.Task[ToolResult]] = {}

    @property
    def spus(self) -> int:
        """Return the SPUs that all searches so far were charged, failed ones included."""
        return sum(tally.spus for tally in self._tallies)

    async def call(self, call: ToolCall) -> ToolResult:
        """Make one call. Whatever is wrong with it the model is told; nothing is raised for it."""
        try:
            asked = parse_call(call, self._tools)
        except UnusableCall as wrong:
            return ToolResult(str(wrong), problem=str(wrong))
        if (made := self._made.get(asked.key)) is not None:
            return replace(await asyncio.shield(made), spus=0, from_memory=True)
        made = self._made[asked.key] = asyncio.create_task(self._answered(asked))
        returned = await made
        # What went wrong may go right the next time.
        if returned.problem is not None:
            del self._made[asked.key]
        return returned

    async def _answered(self, asked: KnowledgeToolCall) -> ToolResult:
        kb_ids = asked.tool.kb_ids
        # The query's embedding costs at most one SPU in each KB.
        if self._spus_left < len(kb_ids):
            return ToolResult(_NO_BUDGET, problem=_NO_BUDGET)
        self._spus_left -= len(kb_ids)
        query = replace(asked.query, max_tokens=self._max_passage_tokens)
        with tally_spus() as tally:
            self._tallies.append(tally)
            try:
                answer = await self._search.search_several(
                    self._organization_id, kb_ids, query, self._search_caller, key=None
                )
            except (KbError, PyMongoError) as error:
                log.warning("run.search_failed", run_id=self._search_caller.run_id, error_type=type(error).__name__)
                # More of what failed may have been charged than was heard of: the budget has all of it for spent.
                return ToolResult(_describe_error(error), problem=_describe_error(error), spus=tally.spus)
        self._spus_left += len(kb_ids) - answer.spu_charged
        return self._shown(answer)

    def _shown(self, answer: SearchAnswer) -> ToolResult:
        problem = " ".join(dict.fromkeys(map(_describe_error, answer.failures.values()))) or None
        passages = [self.book.enter(_passage(result)) for result in answer.fitted.results]
        omitted_count = answer.fitted.omitted_count
        content = shown(passages, omitted_count=omitted_count, delimiter=self._fence)
        return ToolResult(
            f"{problem}\n{content}" if problem else content,
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
        case RequestError():
            return error.detail
        case BudgetExhausted() | UnknownPrice():
            return _NO_MONEY
        case _:
            return _FAILED


def _passage(result: Result) -> CitedPassage:
    chunk = result.chunk
    return CitedPassage(
        number=0,
        citation=chunk["_id"],
        kb_id=result.kb.kb_id,
        document_id=chunk["document_id"],
        document_name=chunk["document_name"],
        chunk_index=chunk["chunk_index"],
        page_start=chunk["page_start"],
        page_end=chunk["page_end"],
        relevance=result.hit.relevance if result.hit is not None else None,
        truncated=result.truncated,
        text=result.text,
    )
