"""The message that stands in place of the question: the template, filled with knowledge, values and results. Pure.

Knowledge is data that a model must not obey: it is delimited like passages. Only instructions that administrators wrote
are not, because they are what the model is to follow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kb_contracts.api.prompt_injection import PromptInjection
from kb_contracts.knowledge.prompt_template import DEFAULT_TEMPLATE, feed_knowledge, fill_template, placeholders
from kb_contracts.knowledge.retrieval import RetrievalResult
from kb_contracts.knowledge.routing import RoutedSection, SectionFormatter, format_section, route
from kb_search.runs.passages import remove_invisible_characters
from kb_shared.chat.prompt_delimiter import PromptDelimiter

INSTRUCTIONS: Final = "instructions"
CONTEXT: Final = "context"
GIVEN_BY_RUN: Final = frozenset({"user_input", "action_result", "action_memory", "attachments"})
"""Placeholders whose values come from the run itself."""


@dataclass(frozen=True, slots=True)
class InjectionSource:
    """Injection of the prompt or agent of a run, with the values that the request gives to it."""

    injection: PromptInjection
    entity_id: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    attachments: str = ""


@dataclass(frozen=True, slots=True)
class RunValues:
    """Values of placeholders that come from the run, not from knowledge."""

    user_input: str
    variables: Mapping[str, str] = field(default_factory=dict)
    attachments: str = ""
    found: str = ""
    """Result of the search before the model speaks, delimited already."""
    action_result: str = ""
    """Result of the last tool call, delimited already."""
    action_memory: str = ""


@dataclass(frozen=True, slots=True)
class InjectedPieces:
    """Knowledge of a retrieval, and what is known about its pieces."""

    result: RetrievalResult = field(default_factory=RetrievalResult)
    trusted: Collection[str] = ()
    """Pieces that only administrators wrote."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Numbers of citations, by piece; a piece that is not indexed yet has none."""
    formatters: Mapping[str, SectionFormatter] = field(default_factory=dict)


def unknown_variables(injection: PromptInjection, variables: Mapping[str, str]) -> list[str]:
    """Return the names of variables that the template has no placeholder for."""
    return sorted(
        variables.keys() - placeholders(injection.template or DEFAULT_TEMPLATE) | variables.keys() & GIVEN_BY_RUN
    )


def build_injected_message(
    injection: PromptInjection, values: RunValues, pieces: InjectedPieces, *, delimiter: PromptDelimiter
) -> str:
    """Fill the template of an agent or a prompt."""
    sections = {
        name: _render_section(name, section, pieces=pieces, delimiter=delimiter)
        for name, section in route(pieces.result).items()
    }
    filled = feed_knowledge(
        {"user_profile": injection.user_profile, CONTEXT: injection.context},
        sections,
        conflict_resolution=injection.knowledge.feed_conflict_resolution,
    )
    if values.found:
        filled[CONTEXT] = "\n".join(part for part in (filled.get(CONTEXT, ""), values.found) if part)
    # Some of them end a line for a model, and JSON leaves them as they are.
    memory, attachments = map(remove_invisible_characters, (values.action_memory, values.attachments))
    of_run = {
        "user_input": values.user_input,
        "action_result": values.action_result,
        "action_memory": delimiter.wrap(memory) if memory else "",
        "attachments": delimiter.wrap({"attachments": attachments}) if attachments else "",
    }
    return fill_template(injection.template or DEFAULT_TEMPLATE, {**values.variables, **filled, **of_run})


def _render_section(name: str, section: RoutedSection, *, pieces: InjectedPieces, delimiter: PromptDelimiter) -> str:
    trusted = [piece for piece in section.pieces if name == INSTRUCTIONS and piece.piece_id in pieces.trusted]
    others = RoutedSection(
        section.metadata,
        section.global_metadata,
        [piece for piece in section.pieces if piece not in trusted],
        section.relations,
    )
    write = pieces.formatters.get(name, format_section)
    parts = [write(RoutedSection(pieces=trusted))] if trusted else []
    if text := remove_invisible_characters(_write_if_any(others, write)):
        sources = _sources_of(others, pieces.numbers)
        parts.append(delimiter.wrap({"knowledge": name, "text": text, **({"sources": sources} if sources else {})}))
    return "\n".join(parts)


def _write_if_any(section: RoutedSection, write: SectionFormatter) -> str:
    is_empty = not (section.metadata or section.global_metadata or section.pieces or section.relations)
    return "" if is_empty else write(section)


def _sources_of(section: RoutedSection, numbers: Mapping[str, int]) -> Sequence[Mapping[str, str]]:
    return [
        {"id": f"[{numbers[piece.piece_id]}]", "piece": remove_invisible_characters(piece.title or piece.piece_id)}
        for piece in section.pieces
        if piece.piece_id in numbers
    ]
