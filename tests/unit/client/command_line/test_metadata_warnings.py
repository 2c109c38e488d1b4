"""The command says which metadata of a document were left out, and sets whether they refuse it instead."""

import json
from typing import Any

import httpx
import pytest

from kb_contracts.api.document_lists import DocumentPage
from kb_contracts.api.documents import DocumentView
from tests.unit.client.command_line.answering_api import CommandRunner


def example_of(model: Any) -> dict[str, Any]:
    [example] = model.model_config["json_schema_extra"]["examples"]
    return json.loads(json.dumps(example))  # type: ignore[no-any-return]


def test_a_document_is_shown_with_what_was_left_out(kb: CommandRunner) -> None:
    document = example_of(DocumentView)
    assert "left out" not in kb(lambda _: httpx.Response(200, json=document), "docs", "show", "handbook").printed
    document["warnings"] = [{"field": "metadata.authors", "message": "is a \x1b[31mlist"}]
    shown = kb(lambda _: httpx.Response(200, json=document), "docs", "show", "handbook").printed
    assert "left out: metadata.authors: is a " in shown
    assert "\x1b" not in shown


def test_a_list_marks_documents_with_warnings(kb: CommandRunner) -> None:
    page = example_of(DocumentPage)
    assert "with warnings" not in kb(lambda _: httpx.Response(200, json=page), "docs", "list").printed
    page["documents"][0]["has_warnings"] = True
    assert "indexed, with warnings" in kb(lambda _: httpx.Response(200, json=page), "docs", "list").printed


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ((), []),
        (("--strict-metadata",), [b'{"strict_metadata":true}']),
        (("--no-strict-metadata",), [b'{"strict_metadata":false}']),
    ],
)
def test_the_settings_are_shown_and_only_what_is_named_is_changed(
    kb: CommandRunner, options: tuple[str, ...], sent: list[bytes]
) -> None:
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path.endswith("/acme/settings")
        if request.method == "PUT":
            bodies.append(request.read())
        return httpx.Response(200, json={"strict_metadata": True})

    result = kb(answer, "admin", "settings", *options)
    assert (result.status, "strict metadata" in result.printed) == (0, True)
    assert bodies == sent
