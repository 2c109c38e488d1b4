"""Knowledge in a prompt is data wherever it stands: a model that obeys all other text does nothing of what it says."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from kb_contracts.api.prompt_injection import PromptInjection
from kb_contracts.knowledge.formatters.section_formatters import FormatterTemplate
from kb_contracts.knowledge.prompt_template import DEFAULT_TEMPLATE
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievalResult, RetrievedPiece
from kb_search.knowledge.section_templates import compile_templates
from kb_search.runs.injected_message import InjectedPieces, RunValues, build_injected_message
from kb_shared.chat.prompt_delimiter import PromptDelimiter
from tests.injection.attacks import read_attacks
from tests.injection.injected_instructions import find_instructions
from tests.injection.obedient_model import read_outside_of_data

QUESTION: Final = "How many days are there?"
TEMPLATE: Final = DEFAULT_TEMPLATE + "\n\n{{ attachments }}\n\n{{ action_memory }}"
TEMPLATES: Final = {
    "context": FormatterTemplate(kind="jinja2", template="{% for piece in pieces %}{{ piece.content }}{% endfor %}"),
    "skills": FormatterTemplate(kind="handlebars", template="{{#each pieces}}{{title}}: {{content}}{{/each}}"),
}


def piece(content: str, info_type: str = "context", title: str = "Holidays") -> RetrievalResult:
    retrieved = RetrievedPiece(
        piece_id="p", content=content, knowledge_type="fact", info_type=info_type, title=title, score=1.0
    )
    return RetrievalResult(pieces=[retrieved])


def relation(label: str) -> RetrievalResult:
    edge = GraphRelation(relation_type="USES", target_node_id="a:b", target_type="a", label=label, depth=1)
    return RetrievalResult(graph_context=[edge])


PLACES: Final[Mapping[str, Callable[[str], RetrievalResult]]] = {
    "property": lambda text: RetrievalResult(metadata={"note": text}),
    "name of a property": lambda text: RetrievalResult(metadata={text: "note"}),
    "global record": lambda text: RetrievalResult(global_metadata={"note": text}),
    "label": relation,
    "context": piece,
    "skills": lambda text: piece(text, "skills"),
    "instructions that no administrator wrote": lambda text: piece(text, "instructions"),
    "title": lambda text: piece("Text.", "skills", title=text),
}


def message(result: RetrievalResult, delimiter: PromptDelimiter, *, from_run: str = "") -> str:
    pieces = InjectedPieces(result, numbers={"p": 1}, formatters=compile_templates(TEMPLATES))
    values = RunValues(QUESTION, attachments=from_run, action_memory=from_run)
    return build_injected_message(PromptInjection(template=TEMPLATE), values, pieces, delimiter=delimiter)


def obeyed(build: Callable[[str, PromptDelimiter], str]) -> list[str]:
    """Return the attacks of which the model does anything."""
    found = []
    for attack in read_attacks():
        delimiter = PromptDelimiter.create()
        rules = f"<<<{delimiter.marker}>>>"
        text = build(attack.text.replace("$OLD_MARK", "0123456789abcdef"), delimiter)
        assert QUESTION in text
        heard = read_outside_of_data([{"role": "system", "content": rules}, {"role": "user", "content": text}])
        instructions = find_instructions(*heard)
        if instructions.calls or instructions.words:
            found.append(attack.attack_id)
    return found


@pytest.mark.parametrize("place", PLACES)
def test_a_model_obeys_no_knowledge(place: str) -> None:
    assert obeyed(lambda text, delimiter: message(PLACES[place](text), delimiter)) == []


def test_a_model_obeys_no_attachment_and_no_memory_of_a_tool() -> None:
    assert obeyed(lambda text, delimiter: message(RetrievalResult(), delimiter, from_run=text)) == []


def test_the_model_would_obey_the_same_texts_outside_of_the_delimiters() -> None:
    assert len(obeyed(lambda text, _delimiter: f"{QUESTION}\n{text}")) > len(read_attacks()) * 0.9


@pytest.mark.parametrize("info_type", ["context", "skills", "instructions"])
def test_knowledge_in_the_syntax_of_templates_stays_as_it_is(info_type: str) -> None:
    text = "{{ user_input }} {{instructions}} {{#each pieces}}{{content}}{{/each}} {% for a in pieces %}a{% endfor %}"
    filled = message(piece(text, info_type), PromptDelimiter.create())
    assert text in filled
    assert filled.count(QUESTION) == 1
