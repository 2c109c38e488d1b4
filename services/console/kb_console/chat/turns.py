"""Questions with their answers, as the chat shows them: of stored runs, and of one that goes on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup
from pydantic import ValidationError

from kb_console.addresses import LIST, page_address
from kb_console.chat.answer_markup import describe_place, find_cited, render_answer
from kb_contracts.api.run_events import RunEvent, ToolReturned
from kb_contracts.api.runs import CitationView, RunFeedback, RunView
from kb_contracts.api.search import PassageCopy
from kb_contracts.api.threads import RunOfThread
from kb_shared.text.whole_characters import whole_characters


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A call of a tool."""

    call_id: str
    tool: str
    query: str
    """The query of the search, or all arguments if they contain none."""
    result: ToolReturned | None = None
    """None while the call goes on."""


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage below an answer, with the address of its page."""

    number: int
    place: str
    address: str
    is_deleted: bool
    also_in: Sequence[PassageCopy]


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A question with what is known of its answer."""

    run_id: str
    question: str
    status: str
    answer: Markup
    steps: Sequence[SearchStep]
    cited: Sequence[ShownPassage] = ()
    not_cited: Sequence[ShownPassage] = ()
    run: RunView | RunOfThread | None = None
    """The finished run; None while it goes on."""
    problem: str | None = None
    violations: Sequence[str] = ()
    """Violations of the JSON schema in an answer."""

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def feedback(self) -> RunFeedback | None:
        return None if self.run is None else self.run.feedback

    @property
    def duration_s(self) -> float | None:
        if self.run is None or self.run.finished_at is None:
            return None
        return (self.run.finished_at - self.run.started_at).total_seconds()


@dataclass(slots=True)
class RunProgress:
    """Collects the events of a run that goes on."""

    organization_id: str
    question: str
    run_id: str = ""
    text: str = ""
    steps: dict[str, SearchStep] = field(default_factory=dict)
    passages: dict[int, CitationView] = field(default_factory=dict)
    finished: RunView | None = None
    _iteration: int = 0

    def apply(self, event: RunEvent) -> None:
        match event.event:
            case "run.started":
                self.run_id = event.data.run_id
            case "tool.called":
                call = event.data
                self.steps[call.call_id] = SearchStep(call.call_id, call.tool, find_query(call.arguments))
            case "passage" | "citation":
                self.passages[event.data.number] = event.data
            case "tool.returned":
                self.steps[event.data.call_id] = to_step(event.data)
            case "answer.delta":
                # What a model says before it searches is not the answer.
                if event.data.iteration != self._iteration:
                    self._iteration, self.text = event.data.iteration, ""
                self.text += event.data.text
            case "run.finished" if isinstance(event.data, RunView):
                self.finished = event.data

    def turn(self) -> ChatTurn:
        """Return what is known so far."""
        if self.finished is not None:
            return to_turn(self.finished, self.organization_id)
        addresses = PassageAddresses(self.organization_id, self.run_id)
        answer = render_answer(self.text, self.passages, addresses.find)
        cited = [self.passages[number] for number in sorted(find_cited(self.text)) if number in self.passages]
        shown = [_to_passage(citation, addresses) for citation in cited]
        return ChatTurn(self.run_id, self.question, "running", answer, list(self.steps.values()), cited=shown)

    def broken_turn(self, problem: str) -> ChatTurn:
        """Return what was known when the connection to the run was lost."""
        known = self.turn()
        return replace(known, status="lost", problem=problem)


@dataclass(frozen=True, slots=True)
class PassageAddresses:
    """Addresses of the passages of a run, which keeps their texts."""

    organization_id: str
    run_id: str
    _known: dict[tuple[str, str], str] = field(default_factory=dict)
    """Addresses by ids of knowledge base and passage: an answer and the list below it name most passages twice."""

    def find(self, citation: CitationView) -> str:
        ids = (citation.kb_id, citation.chunk_id)
        address = self._known.get(ids)
        if address is None:
            address = self._known[ids] = page_address(
                self.organization_id, LIST, citation.kb_id, "passages", citation.chunk_id,
                document=citation.document_id, run=self.run_id,
            )  # fmt: skip
        return address


def to_turn(run: RunView | RunOfThread, organization_id: str) -> ChatTurn:
    """Return the turn of a stored run."""
    addresses = PassageAddresses(organization_id, run.run_id)
    cited = {citation.number: citation for citation in run.citations}
    steps = [step for call in run.tool_calls or [] if (step := _read_step(call)) is not None]
    error: Mapping[str, Any] = run.error or {}
    violations = _texts(error.get("violations"))
    answer = run.answer or str(error.get("answer") or "")
    return ChatTurn(
        run.run_id,
        question=str(run.question[-1].get("content", "")) if run.question else "",
        status=run.status,
        answer=render_answer(answer, cited, addresses.find, violations=violations),
        steps=steps,
        cited=[_to_passage(citation, addresses) for citation in run.citations],
        not_cited=[_to_passage(each, addresses) for each in _find_not_cited(steps, cited)],
        run=run,
        problem=str(error.get("detail") or error.get("type")) if error else None,
        violations=violations,
    )


def to_step(call: ToolReturned) -> SearchStep:
    return SearchStep(call.call_id, call.tool, find_query(call.arguments), call)


def find_query(arguments: str) -> str:
    """Return the query in the arguments of a call, which a model wrote; all of them if there is none."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    query = parsed.get("query") if isinstance(parsed, dict) else None
    return whole_characters(query) if isinstance(query, str) else arguments


def _read_step(call: Mapping[str, Any]) -> SearchStep | None:
    try:
        return to_step(ToolReturned.model_validate(call))
    except ValidationError:
        # Of a version with other fields.
        return None


def _find_not_cited(steps: Sequence[SearchStep], cited: Mapping[int, CitationView]) -> list[CitationView]:
    found = {passage.number: passage for step in steps if step.result is not None for passage in step.result.passages}
    return [found[number] for number in sorted(found) if number not in cited]


def _to_passage(citation: CitationView, addresses: PassageAddresses) -> ShownPassage:
    return ShownPassage(
        citation.number,
        describe_place(citation),
        addresses.find(citation),
        is_deleted=citation.document_deleted,
        also_in=citation.also_in,
    )


def _texts(values: Any) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []
