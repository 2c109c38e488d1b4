"""What `kb search` and `kb knowledge search` print, and which sentence of a cited passage `kb ask` shows."""

from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from kb_client.command_line.cited_sentence import find_cited_sentence
from kb_contracts.api.knowledge_retrieval import EntrySearchResponse
from kb_contracts.api.search import SearchSeveralResponse
from tests.unit.client.command_line.answering_api import CommandRunner
from tests.unit.client.command_line.test_ask import RUN, Answering


def example_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the example of a model."""
    return model.model_config["json_schema_extra"]["examples"][0]  # type: ignore[index,return-value]  # a dict


FOUND = example_of(SearchSeveralResponse)
ENTRIES = example_of(EntrySearchResponse)
WORDS_ONLY = "By words only: the embedding model did not answer in time"
ARTICLES = "Article: AX-1040\nIt is made of steel. Its weight is 3.5 kg.\nArticle: AX-1042\nThe AX-1042 is of brass."


def answering(found: dict[str, Any], **fields: Any) -> Any:
    return lambda _: httpx.Response(200, json=found | fields)


def test_a_passage_is_printed_with_its_strength_and_what_leads_to_it(kb: CommandRunner) -> None:
    [result] = FOUND["results"]
    found = [result | {"metadata": {"path": "hr/leave\x1b[2J.pdf"}}, result | {"is_matched": False}]
    printed = kb(answering(FOUND, results=found), "search", "leave").printed
    first, _, place, *_ = printed.splitlines()
    assert first == "1. handbook.pdf  page 3  Leave  strong"
    assert place == "   hr/leave[2J.pdf  document handbook, knowledge base 65f1c2a3b4d5e6f708192a3b"
    assert "2. handbook.pdf  page 3  Leave  beside a match" in printed
    assert "0.81" not in printed


def test_a_search_by_words_only_says_so(kb: CommandRunner) -> None:
    for command, found in ((("search",), FOUND), (("knowledge", "search"), ENTRIES)):
        assert WORDS_ONLY in kb(answering(found, degraded=["vector"]), *command, "leave").printed
        assert WORDS_ONLY not in kb(answering(found), *command, "leave").printed


def test_who_finds_nothing_is_told_what_to_try(kb: CommandRunner) -> None:
    printed = kb(answering(FOUND, results=[], total_count=0), "search", "asdfgh qwertz").printed
    assert printed.startswith("Nothing was found. Try other words")


def test_an_entry_is_printed_with_its_strength_and_no_number(kb: CommandRunner) -> None:
    printed = kb(answering(ENTRIES), "knowledge", "search", "init").printed
    assert printed.startswith("1. Initial state of a transient LES  (les-rans-init, strong)\n")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("The AX-1042 is made of brass [1].", "The AX-1042 is of brass."),
        ("First of all. AX-1040 has a weight of 3.5 kg. [2][1] The rest is brass.", "Its weight is 3.5 kg."),
        ("Der Artikel besteht aus Messing [1].", ARTICLES),
        ("No mark.", ARTICLES),
        ("", ARTICLES),
    ],
)
def test_the_cited_sentence_is_the_one_that_the_answer_repeats(answer: str, sentence: str) -> None:
    assert find_cited_sentence(ARTICLES, answer, number=1) == sentence


def test_below_an_answer_stands_the_cited_sentence_and_what_opens_it(kb: CommandRunner) -> None:
    [cited] = RUN["citations"]
    run = Answering(answer="It is made of brass: AX-1042 [1].", citations=[cited | {"number": 1, "text": ARTICLES}])
    printed = kb(run, "ask", "Of what is it made?").printed
    assert '"The AX-1042 is of brass."\n' in printed
    assert f"document {cited['document_id']}, knowledge base {cited['kb_id']}" in printed
