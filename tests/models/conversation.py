"""Asks a model one question through the loop of a run. Instead of the search there is a count of common words."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kb_search.runs.events import discard_event
from kb_search.runs.knowledge_tools import PROMPTS_TOOL, KnowledgeTool, describe_prompts_tool, parse_call
from kb_search.runs.loop import RunLimits
from kb_search.runs.passages import CitedPassage, RunPassages, render_passages
from kb_search.runs.plan import Plan
from kb_search.runs.prepare_run import TEMPERATURE
from kb_search.runs.run_execution import RunExecution
from kb_search.runs.run_tools import RunTools, ToolResult
from kb_search.runs.written_arguments import UnusableCall
from kb_search.store.runs import Run, RunStatus
from kb_shared.chat.chat import Chat
from kb_shared.chat.completion import Completion, CompletionRequest, ToolCall
from kb_shared.chat.models import ChatModel
from kb_shared.chat.prompt_delimiter import PromptDelimiter
from kb_shared.chat.provider import ChatProvider, OnText
from kb_shared.errors import KbError, RequestError

TOP_K = 3
_WORD = re.compile(r"\w{3,}")
_LIMITS = RunLimits(max_iterations=3, max_tokens=20_000, max_spus=10, max_seconds=3_600, max_output_tokens=300)


@dataclass(frozen=True, slots=True)
class Asked:
    """A finished run, or why there is none."""

    run: Run
    problem: str | None


class _Corpus(RunTools):
    """Searches texts by common words."""

    def __init__(self, documents: Mapping[str, str], tool: KnowledgeTool, delimiter: PromptDelimiter) -> None:
        self.passages = RunPassages()
        self.has_searched = False
        self._documents = documents
        self._by_name = {tool.name: tool}
        self._marks = delimiter

    @property
    def spus(self) -> int:
        return 0

    @property
    def has_spus(self) -> bool:
        return True

    async def call(self, call: ToolCall) -> ToolResult:
        try:
            parsed = parse_call(call, self._by_name)
        except UnusableCall as error:
            return ToolResult(str(error), problem=str(error))
        self.has_searched = True
        found = [self.passages.add(_passage(name, text)) for name, text in self._best(parsed.query.text)]
        return ToolResult(render_passages(found, omitted_count=0, delimiter=self._marks), found)

    def _best(self, query: str) -> Sequence[tuple[str, str]]:
        wanted = set(_words(query))
        rarity = {
            word: 1 / sum(word in _words(text) for text in self._documents.values())
            for word in wanted
            if any(word in _words(text) for text in self._documents.values())
        }
        scores = {
            name: sum(rarity.get(word, 0) for word in wanted & set(_words(text)))
            for name, text in self._documents.items()
        }
        ranked = sorted(self._documents.items(), key=lambda each: -scores[each[0]])
        return ranked[:TOP_K]


class _ProviderOfModels(Chat):
    """Asks the server, without organizations, keys and limits."""

    def __init__(self) -> None:
        self._asked = ChatProvider(private_addresses=True)
        self.seconds_of_call = 1_800.0

    async def complete(
        self, organization_id: str, request: CompletionRequest, *, model: ChatModel, on_text: OnText | None = None
    ) -> Completion:
        return await self._asked.complete(request, model=model, timeout_s=self.seconds_of_call, on_text=on_text)


def local_model(api_base: str) -> ChatModel:
    return ChatModel(
        name="local",
        label="local",
        route="hosted_vllm/local",
        api_base=api_base,
        api_key="none",
        max_input_tokens=None,
        max_output_tokens=None,
        usd_per_prompt_token=0.0,
        usd_per_completion_token=0.0,
        takes_schema=True,
        fingerprint="local",
    )


async def ask(question: str, documents: Mapping[str, str], *, model: ChatModel, auto_search: bool) -> Asked:
    """Ask one question, as `POST /runs` does."""
    delimiter = PromptDelimiter.create()
    tool = KnowledgeTool(PROMPTS_TOOL, describe_prompts_tool(["rules of a sailing club"]), ["kb"])
    plan = Plan(
        run_id="run",
        organization_id="organization",
        key_id="key",
        model=model,
        instructions="",
        history=[],
        question=[{"role": "user", "content": question}],
        questions=[question],
        tools=[tool],
        schema=None,
        limits=_LIMITS,
        delimiter=delimiter,
        auto_search=auto_search,
        temperature=TEMPERATURE,
    )
    execution = RunExecution(
        plan, _ProviderOfModels(), tools=_Corpus(documents, tool, delimiter), injector=None, send_event=discard_event
    )
    try:
        await execution.converse()
    except RequestError as error:
        return Asked(execution.build_run(RunStatus.FAILED, error), error.slug)
    except KbError as error:
        return Asked(execution.build_run(RunStatus.FAILED, None), type(error).__name__)
    return Asked(execution.build_run(RunStatus.COMPLETED, None), None)


def _passage(name: str, text: str) -> CitedPassage:
    fields: dict[str, Any] = {"page_start": None, "page_end": None, "relevance": None, "truncated": False}
    return CitedPassage(0, name, "kb", name, f"{name}.md", 0, text=text.strip(), **fields)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
