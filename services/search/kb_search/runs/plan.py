"""The plan of a run: all that is known before it begins."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kb_search.runs.citations import remove_marks
from kb_search.runs.discussed_document import DiscussedDocument
from kb_search.runs.injected_message import InjectionSource
from kb_search.runs.knowledge_tools import KnowledgeTool
from kb_search.runs.loop import RunLimits
from kb_search.runs.passages import remove_invisible_characters
from kb_search.runs.prompt import QUESTION, PromptParts, build_rules, introduce_passages, remind
from kb_search.store.runs import Run, RunStatus
from kb_shared.chat.completion import Message
from kb_shared.chat.models import ChatModel
from kb_shared.chat.prompt_delimiter import PromptDelimiter
from kb_shared.mongo.query_log import Origin
from kb_shared.mongo.stored_time import now

_GRACE_PERIOD: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class SearchFindings:
    """Result of the search before the model speaks."""

    results: Sequence[str]
    """Text of each search for the model."""
    example: int | None
    """Number of a passage; None if nothing was found."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run needs to begin."""

    run_id: str
    organization_id: str
    key_id: str
    model: ChatModel
    instructions: str
    """Instructions of the prompt or agent."""
    history: Sequence[Message]
    """Messages of the thread."""
    question: Sequence[Message]
    """The caller's own messages; the last one is the user's."""
    questions: Sequence[str]
    """Questions of the conversation, the last one included."""
    tools: Sequence[KnowledgeTool]
    schema: Mapping[str, Any] | None
    limits: RunLimits
    delimiter: PromptDelimiter
    origin: Origin = "sdk"
    thread_id: str | None = None
    prompt_id: str | None = None
    agent_id: str | None = None
    document: DiscussedDocument | None = None
    injection: InjectionSource | None = None
    """Template and knowledge that stand in place of the question; None: the question stands as it is."""
    auto_search: bool = False
    """True if the run searches with its question before the model speaks."""
    temperature: float | None = None
    """Temperature of the model; None: its own."""
    has_earlier_document: bool = False
    """True if an earlier question of the conversation was about a document."""
    clean_strings: bool = True
    """True if strings of an answer that follows the schema are cleaned; any other answer always is."""

    def messages(self, found: SearchFindings | None = None) -> list[Message]:
        """Build the messages that the conversation begins with; the last one is the question, or follows it.

        Args:
            found: Result of the search before the model speaks, which stands before the question.
        """
        # The caller's own words that its assistant said cite passages of other runs.
        *before, last = [_without_citations(message) for message in self.question]
        document = [] if self.document is None else [self.document.build_message(self.delimiter)]
        if found is None:
            return [self._system(has_passages=False), *self.history, *before, *document, last]
        around = self.describe_search(found)
        introduction, reminder = [{"role": "user", "content": text} for text in around]
        asked: Message = {**last, "content": f"{QUESTION}{last['content']}"}
        start = [self._system(has_passages=True), *self.history, *before, *document]
        return [*start, introduction, asked, reminder]

    def describe_search(self, found: SearchFindings) -> tuple[str, str]:
        """Return what stands before the question, the passages, and what stands behind it, the rules once more."""
        reminder = remind(example=found.example, has_schema=self.schema is not None)
        return introduce_passages(found.results), reminder

    def _system(self, *, has_passages: bool) -> Message:
        parts = PromptParts(
            has_tools=bool(self.tools),
            has_passages=has_passages or self.auto_search,
            has_knowledge=self.injection is not None,
            has_document=self.document is not None,
            has_earlier_document=self.has_earlier_document,
        )
        return {"role": "system", "content": build_rules(parts, self.instructions, self.schema)}

    def texts(self) -> Iterator[str]:
        """Yield the texts of the caller and the document of this run, as the model sees them."""
        yield self.instructions
        if self.schema is not None:
            yield json.dumps(self.schema, ensure_ascii=False)
        for message in (*self.history, *self.question):
            yield str(message["content"])
        if self.injection is not None:
            injection = self.injection.injection
            yield from (injection.template or "", injection.user_profile, injection.context)
            yield from (*self.injection.variables.values(), self.injection.attachments)
        if self.document is not None:
            yield remove_invisible_characters(self.document.name)
            yield remove_invisible_characters(self.document.text)

    def begin_run(self) -> Run:
        """Build the run to store at its beginning."""
        started_at, document = now(), self.document
        return Run(
            run_id=self.run_id,
            organization_id=self.organization_id,
            thread_id=self.thread_id,
            prompt_id=self.prompt_id,
            agent_id=self.agent_id,
            key_id=self.key_id,
            model=self.model.name,
            status=RunStatus.RUNNING,
            question=[dict(message) for message in self.question],
            started_at=started_at,
            lost_after=started_at + timedelta(seconds=self.limits.max_seconds) + _GRACE_PERIOD,
            document_id=None if document is None else document.document_id,
            document_name=None if document is None else document.name,
            document_truncated=document is not None and document.truncated,
            is_json=self.schema is not None,
            origin=self.origin,
            kb_ids=tuple(dict.fromkeys(kb_id for tool in self.tools for kb_id in tool.kb_ids)),
        )


def _without_citations(message: Message) -> Message:
    if message["role"] != "assistant":
        return message
    return {**message, "content": remove_marks(str(message["content"]))}
