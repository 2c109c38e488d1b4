"""The client of the HTTP API."""

from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import httpx

from kb_client.async_client.transport import AsyncTransport
from kb_client.call_options import CallOptions
from kb_client.configuration import load_configuration
from kb_client.retries import DEFAULT_RETRIES
from kb_client.unset import UNSET, Unset
from kb_client.user_agent import user_agent

# Each resource is imported when it is first used: the models of one are a fraction of all.
if TYPE_CHECKING:
    from kb_client.async_client.resources.agents import AsyncAgents
    from kb_client.async_client.resources.api_keys import AsyncApiKeys
    from kb_client.async_client.resources.audit import AsyncAudit
    from kb_client.async_client.resources.budget import AsyncBudget
    from kb_client.async_client.resources.chat_models import AsyncChatModels
    from kb_client.async_client.resources.check_ins import AsyncCheckIns
    from kb_client.async_client.resources.dead_letters import AsyncDeadLetters
    from kb_client.async_client.resources.documents import AsyncDocuments
    from kb_client.async_client.resources.embedding_models import AsyncEmbeddingModels
    from kb_client.async_client.resources.entities import AsyncEntities
    from kb_client.async_client.resources.events import AsyncEvents
    from kb_client.async_client.resources.graph import AsyncGraph
    from kb_client.async_client.resources.insights import AsyncInsights
    from kb_client.async_client.resources.jobs import AsyncJobs
    from kb_client.async_client.resources.knowledge import AsyncKnowledge
    from kb_client.async_client.resources.knowledge_bases import AsyncKnowledgeBases
    from kb_client.async_client.resources.knowledge_entries import AsyncKnowledgeEntries
    from kb_client.async_client.resources.knowledge_sources import AsyncKnowledgeSources
    from kb_client.async_client.resources.llm_providers import AsyncLlmProviders
    from kb_client.async_client.resources.mcp_servers import AsyncMcpServers
    from kb_client.async_client.resources.operations import AsyncOperations
    from kb_client.async_client.resources.organizations import AsyncOrganizations
    from kb_client.async_client.resources.prompts import AsyncPrompts
    from kb_client.async_client.resources.pushed_folders import AsyncPushedFolders
    from kb_client.async_client.resources.reconcile import AsyncReconcile
    from kb_client.async_client.resources.runs import AsyncRuns
    from kb_client.async_client.resources.tags import AsyncTags
    from kb_client.async_client.resources.threads import AsyncThreads
    from kb_client.async_client.resources.unsendable_messages import AsyncUnsendableMessages
    from kb_client.async_client.resources.usage import AsyncUsage
    from kb_client.async_client.resources.webhooks import AsyncWebhooks
    from kb_client.async_client.resources.whoami import AsyncWhoAmI


class AsyncClient:
    """Client of the API for one organization.

    Each setting is taken from the first of these places that has it: the argument, the environment variable, a profile
    in `~/.config/kb/config.toml`, which `kb login` writes.

    Args:
        base_url: address of the API, as `KB_BASE_URL`.
        organization: id of the organization, as `KB_ORGANIZATION`.
        api_key: API key, as `KB_API_KEY`.
        profile: name of a profile, as `KB_PROFILE`.
        timeout_s: time limit of a call with its retries; by default 60, and 300 for runs.
        max_retries: how often a call is repeated after an error that may pass.
        origin: kind of caller, for the log of searches.
        http: httpx client with your own proxy, certificates or transport. It stays open.
    Raises:
        UnusableConfiguration: a setting is missing.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        organization: str | None = None,
        api_key: str | None = None,
        profile: str | None = None,
        timeout_s: float | Unset = UNSET,
        max_retries: int = DEFAULT_RETRIES,
        origin: Literal["sdk", "console", "cli"] = "sdk",
        http: httpx.AsyncClient | None = None,
    ) -> None:
        configuration = load_configuration(
            base_url=base_url, organization=organization, api_key=api_key, profile=profile
        )
        headers = {
            "User-Agent": user_agent(),
            "X-KB-Origin": origin,
        }
        connections = http or httpx.AsyncClient()
        transport = AsyncTransport(configuration, connections, headers=headers)
        owned_http = connections if http is None else None
        self._assemble(transport, CallOptions(timeout_s, max_retries), owned_http=owned_http)

    def _assemble(
        self, transport: AsyncTransport, options: CallOptions, *, owned_http: httpx.AsyncClient | None = None
    ) -> None:
        self._transport = transport
        self._options = options
        self._owned_http = owned_http

    def __repr__(self) -> str:
        configuration = self._transport.configuration
        return f"{type(self).__name__}({configuration.base_url!r}, organization={configuration.organization!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._owned_http is not None:
            await self._owned_http.aclose()

    @property
    def organization(self) -> str:
        return self._transport.configuration.organization

    @property
    def base_url(self) -> str:
        return self._transport.configuration.base_url

    def with_options(
        self,
        *,
        timeout_s: float | Unset = UNSET,
        max_retries: int | Unset = UNSET,
        idempotency_key: str | Unset | None = UNSET,
    ) -> "AsyncClient":
        """Return a client with the same connections and other options, for one call or several.

        client.with_options(timeout_s=2).knowledge_bases.search(kb_id, "leave")

        Args:
            timeout_s: time limit of a call.
            max_retries: how often a call is repeated.
            idempotency_key: key of a creating POST that a later process must be able to repeat. For one call: the API
                refuses another request with the same key.
        """
        current = self._options
        options = CallOptions(
            current.timeout_s if isinstance(timeout_s, Unset) else timeout_s,
            current.max_retries if isinstance(max_retries, Unset) else max_retries,
            current.idempotency_key if isinstance(idempotency_key, Unset) else idempotency_key,
        )
        client = object.__new__(AsyncClient)
        client._assemble(self._transport, options)
        return client

    @cached_property
    def agents(self) -> "AsyncAgents":
        from kb_client.async_client.resources.agents import AsyncAgents

        return AsyncAgents(self._transport, self._options)

    @cached_property
    def api_keys(self) -> "AsyncApiKeys":
        from kb_client.async_client.resources.api_keys import AsyncApiKeys

        return AsyncApiKeys(self._transport, self._options)

    @cached_property
    def audit(self) -> "AsyncAudit":
        from kb_client.async_client.resources.audit import AsyncAudit

        return AsyncAudit(self._transport, self._options)

    @cached_property
    def budget(self) -> "AsyncBudget":
        from kb_client.async_client.resources.budget import AsyncBudget

        return AsyncBudget(self._transport, self._options)

    @cached_property
    def check_ins(self) -> "AsyncCheckIns":
        from kb_client.async_client.resources.check_ins import AsyncCheckIns

        return AsyncCheckIns(self._transport, self._options)

    @cached_property
    def dead_letters(self) -> "AsyncDeadLetters":
        from kb_client.async_client.resources.dead_letters import AsyncDeadLetters

        return AsyncDeadLetters(self._transport, self._options)

    @cached_property
    def documents(self) -> "AsyncDocuments":
        from kb_client.async_client.resources.documents import AsyncDocuments

        return AsyncDocuments(self._transport, self._options)

    @cached_property
    def chat_models(self) -> "AsyncChatModels":
        from kb_client.async_client.resources.chat_models import AsyncChatModels

        return AsyncChatModels(self._transport, self._options)

    @cached_property
    def embedding_models(self) -> "AsyncEmbeddingModels":
        from kb_client.async_client.resources.embedding_models import AsyncEmbeddingModels

        return AsyncEmbeddingModels(self._transport, self._options)

    @cached_property
    def entities(self) -> "AsyncEntities":
        from kb_client.async_client.resources.entities import AsyncEntities

        return AsyncEntities(self._transport, self._options)

    @cached_property
    def events(self) -> "AsyncEvents":
        from kb_client.async_client.resources.events import AsyncEvents

        return AsyncEvents(self._transport, self._options)

    @cached_property
    def graph(self) -> "AsyncGraph":
        from kb_client.async_client.resources.graph import AsyncGraph

        return AsyncGraph(self._transport, self._options)

    @cached_property
    def insights(self) -> "AsyncInsights":
        from kb_client.async_client.resources.insights import AsyncInsights

        return AsyncInsights(self._transport, self._options)

    @cached_property
    def jobs(self) -> "AsyncJobs":
        from kb_client.async_client.resources.jobs import AsyncJobs

        return AsyncJobs(self._transport, self._options)

    @cached_property
    def knowledge(self) -> "AsyncKnowledge":
        from kb_client.async_client.resources.knowledge import AsyncKnowledge

        return AsyncKnowledge(self._transport, self._options)

    @cached_property
    def knowledge_bases(self) -> "AsyncKnowledgeBases":
        from kb_client.async_client.resources.knowledge_bases import AsyncKnowledgeBases

        return AsyncKnowledgeBases(self._transport, self._options)

    @cached_property
    def knowledge_entries(self) -> "AsyncKnowledgeEntries":
        from kb_client.async_client.resources.knowledge_entries import AsyncKnowledgeEntries

        return AsyncKnowledgeEntries(self._transport, self._options)

    @cached_property
    def knowledge_sources(self) -> "AsyncKnowledgeSources":
        from kb_client.async_client.resources.knowledge_sources import AsyncKnowledgeSources

        return AsyncKnowledgeSources(self._transport, self._options)

    @cached_property
    def mcp_servers(self) -> "AsyncMcpServers":
        from kb_client.async_client.resources.mcp_servers import AsyncMcpServers

        return AsyncMcpServers(self._transport, self._options)

    @cached_property
    def llm_providers(self) -> "AsyncLlmProviders":
        from kb_client.async_client.resources.llm_providers import AsyncLlmProviders

        return AsyncLlmProviders(self._transport, self._options)

    @cached_property
    def operations(self) -> "AsyncOperations":
        from kb_client.async_client.resources.operations import AsyncOperations

        return AsyncOperations(self._transport, self._options)

    @cached_property
    def organizations(self) -> "AsyncOrganizations":
        from kb_client.async_client.resources.organizations import AsyncOrganizations

        return AsyncOrganizations(self._transport, self._options)

    @cached_property
    def prompts(self) -> "AsyncPrompts":
        from kb_client.async_client.resources.prompts import AsyncPrompts

        return AsyncPrompts(self._transport, self._options)

    @cached_property
    def pushed_folders(self) -> "AsyncPushedFolders":
        from kb_client.async_client.resources.pushed_folders import AsyncPushedFolders

        return AsyncPushedFolders(self._transport, self._options)

    @cached_property
    def reconcile(self) -> "AsyncReconcile":
        from kb_client.async_client.resources.reconcile import AsyncReconcile

        return AsyncReconcile(self._transport, self._options)

    @cached_property
    def runs(self) -> "AsyncRuns":
        from kb_client.async_client.resources.runs import AsyncRuns

        return AsyncRuns(self._transport, self._options)

    @cached_property
    def tags(self) -> "AsyncTags":
        from kb_client.async_client.resources.tags import AsyncTags

        return AsyncTags(self._transport, self._options)

    @cached_property
    def threads(self) -> "AsyncThreads":
        from kb_client.async_client.resources.threads import AsyncThreads

        return AsyncThreads(self._transport, self._options)

    @cached_property
    def unsendable_messages(self) -> "AsyncUnsendableMessages":
        from kb_client.async_client.resources.unsendable_messages import AsyncUnsendableMessages

        return AsyncUnsendableMessages(self._transport, self._options)

    @cached_property
    def usage(self) -> "AsyncUsage":
        from kb_client.async_client.resources.usage import AsyncUsage

        return AsyncUsage(self._transport, self._options)

    @cached_property
    def webhooks(self) -> "AsyncWebhooks":
        from kb_client.async_client.resources.webhooks import AsyncWebhooks

        return AsyncWebhooks(self._transport, self._options)

    @cached_property
    def whoami(self) -> "AsyncWhoAmI":
        from kb_client.async_client.resources.whoami import AsyncWhoAmI

        return AsyncWhoAmI(self._transport, self._options)
