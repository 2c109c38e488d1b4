"""Turns a text into structured knowledge: a chat model proposes the document of an import, which is checked."""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kb_contracts.api.check_ins import StructureText
from kb_contracts.knowledge.import_document import SkippedItem
from kb_knowledge.content_check import refuse_sensitive
from kb_knowledge.import_knowledge import KnowledgeImporter
from kb_knowledge.read_proposal import Proposal, read_proposal
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.store import check_ins
from kb_knowledge.store.check_ins import CheckIn, CheckInKey
from kb_knowledge.structure_prompt import ask_again, begin_conversation, describe_mistake
from kb_shared.chat.chat import Chat
from kb_shared.chat.completion import Completion, CompletionRequest, Message
from kb_shared.chat.models import ChatModel
from kb_shared.chat.prompt_delimiter import PromptDelimiter
from kb_shared.chat.request_errors import map_provider_error, require_model
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.concurrency.shared_thread import SharedThread
from kb_shared.errors import (
    BudgetExhausted,
    Parked,
    ProviderRefused,
    ProviderUnavailable,
    RequestError,
    UnknownModel,
    UnknownPrice,
)
from kb_shared.http.authentication import Caller
from kb_shared.identifiers import new_id
from kb_shared.mongo import entities, knowledge_graph
from kb_shared.mongo.database import Database
from kb_shared.mongo.stored_time import now
from kb_shared.observability.metrics import CHECK_INS

MAX_KNOWN: Final = 200
"""Number of known entities, and of known nodes, that a model is told of."""
MAX_ANSWER_TOKENS: Final = 16_000


@dataclass(slots=True)
class _ConversationCost:
    """Tokens and price of the answers of a conversation."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, completion: Completion) -> None:
        self.answers += 1
        self.prompt_tokens += completion.prompt_tokens
        self.completion_tokens += completion.completion_tokens
        unknown = self.cost_usd is None or completion.cost_usd is None
        self.cost_usd = None if unknown else (self.cost_usd or 0.0) + (completion.cost_usd or 0.0)


@dataclass(frozen=True, slots=True)
class _Known:
    entity_ids: list[str] = field(default_factory=list)
    node_ids: list[str] = field(default_factory=list)


class TextStructurer:
    """Structures the texts of all organizations."""

    def __init__(
        self, database: Database, chat: Chat, *, importer: KnowledgeImporter, settings: KnowledgeSettings
    ) -> None:
        self._database = database
        self._chat = chat
        self._importer = importer
        self._settings = settings

    async def propose(self, caller: Caller, request: StructureText, *, thread: SharedThread) -> CheckIn:
        """Return the check-in of a text, which is not stored yet.

        Args:
            caller: author of the text.
            request: the text.
            thread: runs what needs much CPU.

        Raises:
            RequestError: 422 `sensitive-content`, `model-not-allowed`, `unknown-model`, `provider-key-missing`,
                `messages-refused`, `invalid-answer`; 503 `provider-refused`, `provider-unavailable`.
            BudgetExhausted, UnknownPrice: see `Chat.complete`.
        """
        refuse_sensitive(request.text, field="text")
        name = request.model or self._settings.chat_model
        model = await require_model(self._chat, caller.organization_id, name)
        known = await self._find_known(caller.organization_id)
        messages = begin_conversation(
            request.text,
            known_entities=known.entity_ids,
            known_nodes=known.node_ids,
            delimiter=PromptDelimiter.create(),
        )
        spent = _ConversationCost()
        for retries_left in range(request.max_retries, -1, -1):
            completion = await self._ask(caller, messages, model=model)
            spent.add(completion)
            answer = completion.text or ""
            proposal = await thread.work(
                caller.organization_id, partial(read_proposal, answer, known_nodes=known.node_ids)
            )
            mistakes = _mistakes(proposal, completion)
            if not mistakes or not retries_left:
                break
            messages += ask_again(answer, mistakes)
        if proposal.document is None:
            CHECK_INS.labels("invalid").inc()
            raise _invalid_answer(mistakes)
        CHECK_INS.labels("proposed").inc()
        return _check_in(caller, request.text, proposal=proposal, model=model, spent=spent)

    async def apply(self, caller: Caller, check_in_id: str, *, thread: SharedThread) -> CheckIn:
        """Import the proposal of a check-in, again if it was before. Raises NotFound."""
        key = CheckInKey(caller.organization_id, check_in_id)
        check_in = await check_ins.get(self._database, key)
        report = await self._importer.import_document(
            caller, json.loads(check_in.proposal), dry_run=False, thread=thread
        )
        CHECK_INS.labels("applied").inc()
        return await check_ins.set_applied(self._database, key, artifacts=report.model_dump(mode="json"))

    async def _find_known(self, organization_id: str) -> _Known:
        found_entities, _ = await entities.find_page(self._database, organization_id, after=None, limit=MAX_KNOWN)
        found_nodes, _ = await knowledge_graph.find_page_of_nodes(
            self._database, organization_id, after=None, limit=MAX_KNOWN
        )
        return _Known([each.entity_id for each in found_entities], [each.node_id for each in found_nodes])

    async def _ask(self, caller: Caller, messages: list[Message], *, model: ChatModel) -> Completion:
        limits = [limit for limit in (MAX_ANSWER_TOKENS, model.max_output_tokens) if limit is not None]
        request = CompletionRequest(list(messages), max_completion_tokens=min(limits))
        try:
            # A slow provider must not keep other requests of the organization waiting.
            async with pause_turn():
                return await self._chat.complete(caller.organization_id, request, model=model)
        except (BudgetExhausted, UnknownPrice):
            raise
        except (ProviderRefused, UnknownModel, ProviderUnavailable, Parked) as error:
            raise map_provider_error(error) from error


def _mistakes(proposal: Proposal, completion: Completion) -> list[str]:
    if proposal.document is None and completion.is_cut:
        return ["the answer was cut off because it is too long; say less", *proposal.mistakes]
    return [*proposal.mistakes, *map(describe_mistake, proposal.warnings)]


def _invalid_answer(mistakes: list[str]) -> RequestError:
    return RequestError(
        422,
        "invalid-answer",
        "The model's answer is no document that can be imported, also after it was told what is wrong. Use a shorter "
        "text or another model.",
        extra={"violations": mistakes},
    )


def _check_in(caller: Caller, text: str, *, proposal: Proposal, model: ChatModel, spent: _ConversationCost) -> CheckIn:
    return CheckIn(
        check_in_id=new_id(),
        organization_id=caller.organization_id,
        text=text,
        proposal=json.dumps(proposal.document, ensure_ascii=False),
        warnings=[_warning_row(each) for each in proposal.warnings],
        model=model.name,
        answers=spent.answers,
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
        cost_usd=spent.cost_usd,
        created_at=now(),
        created_by=caller.key_id,
    )


def _warning_row(skipped: SkippedItem) -> dict[str, object]:
    return skipped.model_dump(mode="json")
