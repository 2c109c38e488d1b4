"""Choices for the next answer, and the names of those that were made: a page asks the API only for what it shows."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from kb_client.errors import ApiError
from kb_console.chat.chat_choice import AGENT, PROMPT, ChatChoice
from kb_console.dependencies import Visit
from kb_console.documents.document_choices import find_document_name
from kb_contracts.api.agents import AgentView
from kb_contracts.api.chat_models import ChatModelView
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_contracts.api.prompts import PromptView
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

_CHOICES: Final = 100
_NOT_SHOWN: Final = frozenset({403, 404})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Choices for an answer: knowledge bases, agents, prompts, models."""

    knowledge_bases: list[KnowledgeBaseView]
    agents: list[AgentView]
    prompts: list[PromptView]
    models: list[ChatModelView]

    @property
    def names(self) -> dict[str, str]:
        """The names of agents, prompts and knowledge bases, by the values that forms have for them."""
        names = {AGENT + agent.agent_id: agent.name for agent in self.agents}
        names |= {PROMPT + prompt.prompt_id: prompt.name for prompt in self.prompts}
        return names | {kb.kb_id: kb.name for kb in self.knowledge_bases}


async def read_options(visit: Visit) -> ChatOptions:
    api = visit.api
    knowledge_bases, models, (agents, prompts) = await run_three_or_cancel(
        api.knowledge_bases.list(sort="name", limit=_CHOICES),
        api.chat_models.list(key_present=True, limit=_CHOICES),
        _read_answerers(visit),
    )
    return ChatOptions(knowledge_bases.knowledge_bases, agents, prompts, models.chat_models)


async def read_names(visit: Visit, choice: ChatChoice) -> dict[str, str]:
    """Return the names of the agent or prompt, of the knowledge bases and of the document, of those that are known."""
    of_answerer, of_knowledge_bases, of_document = await run_three_or_cancel(
        _read_name_of_answerer(visit, choice),
        _read_names_of_knowledge_bases(visit, choice),
        _read_name_of_document(visit, choice),
    )
    return of_answerer | of_knowledge_bases | of_document


def list_chosen(choice: ChatChoice, names: Mapping[str, str]) -> list[str]:
    """Return the names of what was chosen, in the order of the page. What is not known has only its id."""
    searched = ["all knowledge bases"] if choice.searches_all else [*choice.kb_ids, choice.document_id]
    return [names.get(each, each) for each in (choice.answerer, choice.model, *searched) if each]


async def _read_answerers(visit: Visit) -> tuple[list[AgentView], list[PromptView]]:
    """Return agents and prompts; none for a key that is limited to knowledge bases, which may not see them."""
    found = await _find(
        run_two_or_cancel(visit.api.agents.list(limit=_CHOICES), visit.api.prompts.list(limit=_CHOICES))
    )
    return ([], []) if found is None else (found[0].agents, found[1].prompts)


async def _read_name_of_answerer(visit: Visit, choice: ChatChoice) -> dict[str, str]:
    found: AgentView | PromptView | None = None
    if choice.answerer.startswith(AGENT):
        found = await _find(visit.api.agents.get(choice.answerer.removeprefix(AGENT)))
    elif choice.answerer.startswith(PROMPT):
        found = await _find(visit.api.prompts.get(choice.answerer.removeprefix(PROMPT)))
    return {} if found is None else {choice.answerer: found.name}


async def _read_names_of_knowledge_bases(visit: Visit, choice: ChatChoice) -> dict[str, str]:
    if not choice.kb_ids:
        return {}
    found = await visit.api.knowledge_bases.list(sort="name", limit=_CHOICES)
    return {kb.kb_id: kb.name for kb in found.knowledge_bases}


async def _read_name_of_document(visit: Visit, choice: ChatChoice) -> dict[str, str]:
    if not choice.document_id:
        return {}
    return {choice.document_id: await find_document_name(visit, choice.document_id)}


async def _find(call: Awaitable[T]) -> T | None:
    """Return what a call finds; None if it is gone, or if the key may not see it."""
    try:
        return await call
    except ApiError as error:
        if error.status not in _NOT_SHOWN:
            raise
        return None
