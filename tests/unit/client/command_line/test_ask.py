"""What `kb ask` and `kb chat` say about what an answer rests on, and what they send."""

import json
from typing import Any

import httpx
import pytest

from kb_contracts.api.runs import RunView
from tests.unit.client.command_line.answering_api import KNOWLEDGE_BASE, CommandRunner

RUN: dict[str, Any] = RunView.model_config["json_schema_extra"]["examples"][0]  # type: ignore[index,assignment]  # a dict


class Answering:
    """Answers each run with one event."""

    def __init__(self, **finished: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self._finished = RUN | finished

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"knowledge_bases": [KNOWLEDGE_BASE], "total_count": 1})
        self.asked.append(json.loads(request.content))
        event = f"event: run.finished\ndata: {json.dumps(self._finished)}\n\n"
        return httpx.Response(200, text=event, headers={"Content-Type": "text/event-stream"})


@pytest.mark.parametrize(
    ("finished", "said", "unsaid"),
    [
        ({}, "", "cite"),
        ({"grounded": "received", "citations": []}, "No passage is cited: the documents may not say this.", "removed"),
        ({"grounded": "none", "citations": []}, "No document was read for this answer", "removed"),
        ({"grounded": None, "citations": []}, "", "passage is cited"),
        ({"dropped_citations": 1}, "1 citation was removed: no passage that was found has this number.", "No passage"),
        (
            {"grounded": "received", "citations": [], "dropped_citations": 2},
            "No passage is cited: the documents may not say this.\n\n2 citations were removed",
            "No document",
        ),
    ],
)
def test_an_answer_that_cites_nothing_or_what_was_not_found_says_so(
    kb: CommandRunner, finished: dict[str, Any], said: str, unsaid: str
) -> None:
    result = kb(Answering(**finished), "ask", "How many days?")
    assert result.status == 0, result.errors
    assert said in result.printed
    assert unsaid not in result.printed.replace("passage that", "")


def test_a_person_decides_whether_the_run_searches_first(kb: CommandRunner) -> None:
    api = Answering()
    for options in ((), ("--auto-search",), ("--no-auto-search",)):
        kb(api, "ask", "How many days?", *options)
    kb(api, "chat", "--auto-search", piped="How many days?\n")
    assert [body.get("auto_search") for body in api.asked] == [None, True, False, True]


def test_json_has_what_the_answer_rests_on(kb: CommandRunner) -> None:
    printed = kb(Answering(grounded="none", citations=[]), "ask", "How many days?", "--json").printed
    assert json.loads(printed)["grounded"] == "none"


def test_a_cited_passage_is_printed_with_the_other_documents_that_have_it(kb: CommandRunner) -> None:
    copies = [
        {"kb_id": "65f1c2a3b4d5e6f708192a3b", "document_id": each, "source": name, "chunk_id": f"{each}:0:0"}
        for each, name in [
            ("h25", "handbook 2025.pdf"),
            ("hb", "copy of\x1b[2J handbook.pdf"),
            ("h25b", "handbook 2025.pdf"),
        ]
    ]
    [cited] = RUN["citations"]
    printed = kb(Answering(citations=[cited | {"also_in": copies}]), "ask", "How many days?").printed
    assert "[1] handbook.pdf, page 3, Leave, also in " in printed
    assert printed.count("handbook 2025.pdf") == 1
    assert "\x1b" not in printed
    assert "also in" not in kb(Answering(), "ask", "How many days?").printed


def test_a_conversation_goes_on_after_an_empty_line_and_ends_when_a_line_says_so(kb: CommandRunner) -> None:
    api = Answering()
    kb(api, "chat", piped="How many days?\n\n   \nAnd for trainees?\n/exit\nNot asked.\n")
    assert [body["messages"][-1]["content"] for body in api.asked] == ["How many days?", "And for trainees?"]
    assert len(api.asked[1]["messages"]) == 3


def test_a_command_within_a_conversation_is_explained_and_never_sent_to_the_model(kb: CommandRunner) -> None:
    api = Answering()
    result = kb(api, "chat", piped="/help\n/clear\n/etc/hosts says what?\n")
    assert [body["messages"][-1]["content"] for body in api.asked] == ["/etc/hosts says what?"]
    assert result.errors.count("/exit or Ctrl-D ends the conversation") == 2
    assert "There is no /clear." in result.errors


def test_an_answer_of_no_language_model_says_how_to_set_one_once_a_conversation(kb: CommandRunner) -> None:
    hint = "kb providers set --help"
    demo = Answering(model="demo-extractive")
    assert kb(demo, "ask", "How many days?").printed.count(hint) == 1
    assert kb(demo, "chat", piped="How many days?\nAnd hours?\n").printed.count(hint) == 1
    assert hint not in kb(demo, "ask", "How many days?", "--json").printed
    assert hint not in kb(Answering(model="gpt-4o-mini"), "ask", "How many days?").printed
