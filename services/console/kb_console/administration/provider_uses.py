"""The knowledge bases, agents and prompts that use the models of a provider."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kb_client import AsyncClient
from kb_contracts.api.agents import AgentView
from kb_contracts.api.embedding_models import EmbeddingModelView
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_contracts.api.prompts import PromptView
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class ProviderUses:
    knowledge_bases: list[KnowledgeBaseView] = field(default_factory=list)
    """Knowledge bases whose documents and queries the provider embeds."""
    agents: list[AgentView] = field(default_factory=list)
    prompts: list[PromptView] = field(default_factory=list)


async def read_uses(api: AsyncClient) -> tuple[Mapping[str, ProviderUses], list[EmbeddingModelView]]:
    """Return what uses each provider, of the first hundred of each kind, and the known embedding models."""
    (embedding, chat), kbs, (agents, prompts) = await run_three_or_cancel(
        run_two_or_cancel(api.embedding_models.list(limit=_MOST), api.chat_models.list(limit=_MOST)),
        api.knowledge_bases.list(sort="name", limit=_MOST),
        run_two_or_cancel(api.agents.list(limit=_MOST), api.prompts.list(limit=_MOST)),
    )
    embeds = {model.name: model.provider for model in embedding.embedding_models}
    chats = {model.name: model.provider for model in chat.chat_models}
    uses: dict[str | None, ProviderUses] = defaultdict(ProviderUses)
    for kb in kbs.knowledge_bases:
        uses[embeds.get(kb.embedding_model)].knowledge_bases.append(kb)
    for agent in agents.agents:
        uses[chats.get(agent.model)].agents.append(agent)
    for prompt in prompts.prompts:
        uses[chats.get(prompt.model)].prompts.append(prompt)
    return {provider: used for provider, used in uses.items() if provider is not None}, embedding.embedding_models
