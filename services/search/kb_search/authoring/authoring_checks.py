"""Checks of prompts and agents before they are stored: quotas, KBs, models and schemas."""

import json
from collections.abc import Iterable
from typing import Any

from kb_contracts.api.prompt_injection import PromptInjection, PromptInjectionView
from kb_search.knowledge.section_templates import compile_templates
from kb_search.runs.prepare_run import Preparation
from kb_search.settings import SearchSettings
from kb_search.store import prompts
from kb_shared.http.authentication import Caller
from kb_shared.http.quotas import require_quota
from kb_shared.mongo import agents, knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey


def shown_injection(stored: str | None) -> PromptInjectionView | None:
    """Return the injection of a stored prompt or agent."""
    if stored is None:
        return None
    return PromptInjectionView.model_validate(PromptInjection.model_validate_json(stored).model_dump())


class AuthoringChecks:
    """Checks for the routes of prompts and agents. There is one in each process."""

    def __init__(self, database: Database, preparation: Preparation, settings: SearchSettings) -> None:
        self.database = database
        self._preparation = preparation
        self._settings = settings

    async def require_prompt_quota(self, caller: Caller) -> None:
        """Raise RequestError 409 if the organization has as many prompts as it may have."""
        await require_quota(
            lambda: prompts.count(self.database, caller.organization_id),
            self._settings.max_prompts,
            things="prompts",
            setting="KB_MAX_PROMPTS",
        )

    async def require_agent_quota(self, caller: Caller) -> None:
        """Raise RequestError 409 if the organization has as many agents as it may have."""
        await require_quota(
            lambda: agents.count(self.database, caller.organization_id),
            self._settings.max_agents,
            things="agents",
            setting="KB_MAX_AGENTS",
        )

    async def check_knowledge_bases(self, caller: Caller, kb_ids: Iterable[str]) -> None:
        """Raise NotFound unless all KBs exist in the caller's organization."""
        for kb_id in kb_ids:
            await knowledge_bases.get(self.database, KnowledgeBaseKey(caller.organization_id, kb_id))

    async def usable_model(self, caller: Caller, name: str | None) -> str:
        """Return the name of a usable model, by default that of the deployment. Raises RequestError 422."""
        return (await self._preparation.require_model(caller.organization_id, name or self._settings.chat_model)).name

    def stored_injection(self, injection: PromptInjection | None) -> str | None:
        """Return the injection of a prompt or agent as it is stored. Raises RequestError 422 for a bad template."""
        if injection is None:
            return None
        compile_templates(injection.knowledge.formatters)
        return injection.model_dump_json() if injection.is_used else None

    async def stored_schema(self, caller: Caller, schema: dict[str, Any] | None) -> str | None:
        """Return the schema of a prompt as it is stored. Raises RequestError 422 if it can't be used."""
        await self._preparation.check_answer_schema(caller.organization_id, "schema", schema)
        return None if schema is None else json.dumps(schema, ensure_ascii=False)
