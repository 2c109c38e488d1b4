"""What a push makes of the answers of the server."""

from pathlib import Path
from typing import Any

import pytest

from kb_client.command_line.output import visible
from kb_client.command_line.push.report import FileOutcome, OutcomeKind, PushReport, summarize
from kb_client.command_line.push.send import judge
from kb_client.files.file_problem import FileProblem
from kb_client.own_tag import tag_named
from kb_contracts.api.documents import DocumentView
from kb_contracts.identifiers import is_identifier
from kb_contracts.metadata import MetadataWarning

PLACE: dict[str, Any] = {
    "kb_id": "k1",
    "name": "handbook",
    "status": "indexed",
    "chunk_count": 7,
    "indexed_at": None,
    "attempts": 0,
    "error": None,
    "next_attempt_at": None,
}


def view(*places: dict[str, Any], searchable: bool = False) -> DocumentView:
    return DocumentView.model_validate(
        {
            "document_id": "handbook.a",
            "document_name": "A",
            "alive": True,
            "tag_ids": ["handbook"],
            "text_revision": 1,
            "tags_revision": 1,
            "metadata_revision": 1,
            "deleted_revision": None,
            "upload_date": None,
            "content_type": None,
            "source_digest": None,
            "metadata": {},
            "accepted_revision": 1,
            "unsendable_messages": [],
            "knowledge_bases": [PLACE | each for each in places],
            "searchable": searchable,
        }
    )


def test_a_searchable_document_has_its_passages() -> None:
    outcome = judge(view({}, searchable=True), "a.md")
    assert outcome is not None
    assert (outcome.outcome, outcome.passages) == ("searchable", 7)


def test_what_was_left_out_of_the_metadata_is_told_after_the_warnings_of_the_file() -> None:
    left_out = {"field": "metadata.title", "message": "has 9000 characters; at most 8192 are allowed"}
    shown = view({}, searchable=True).model_copy(update={"warnings": [MetadataWarning(**left_out)]})
    outcome = judge(shown, "a.md", warnings=("a page has no text",))
    assert outcome is not None
    assert outcome.warnings == (
        "a page has no text",
        "metadata.title: has 9000 characters; at most 8192 are allowed",
    )


def test_what_could_not_be_read_of_a_file_is_told_once() -> None:
    said = [MetadataWarning(field="text", message="a page has no text")]
    outcome = judge(
        view({}, searchable=True).model_copy(update={"warnings": said}), "a.md", warnings=(said[0].message,)
    )
    assert outcome is not None
    assert outcome.warnings == ("a page has no text",)


def test_a_document_that_is_being_indexed_has_no_outcome_yet() -> None:
    assert judge(view({"status": "running"}), "a.md") is None


@pytest.mark.parametrize(
    ("place", "kind", "remedy"),
    [
        (
            {"status": "failed", "error": {"type": "too-many-chunks", "message": "it is too long"}},
            "failed",
            "it is too long. Once that is solved: kb kb retry-failed k1",
        ),
        ({"status": "paused"}, "sent", "kb kb resume k1"),
    ],
)
def test_what_can_not_become_searchable_says_what_to_do(place: dict[str, Any], kind: str, remedy: str) -> None:
    outcome = judge(view(place), "a.md")
    assert outcome is not None
    assert outcome.outcome == kind
    assert outcome.reason is not None
    assert remedy in outcome.reason


def test_a_tag_without_a_knowledge_base_is_no_failure() -> None:
    outcome = judge(view(), "a.md")
    assert outcome is not None
    assert outcome.outcome == "sent"
    assert outcome.reason is not None
    assert "kb kb create NAME --tag handbook" in outcome.reason


def test_the_summary_counts_what_was_printed_before() -> None:
    report = PushReport(
        [
            FileOutcome("a.md", "a", "searchable"),
            FileOutcome("b.md", "b", "unchanged"),
            FileOutcome("c.pdf", "c", "unreadable", "it has no text; pass --ocr"),
            FileOutcome("d.md", "d", "failed", "the server refuses it"),
        ],
        {"a link": 2},
        still_indexing=1,
    )
    assert summarize(report, duration_s=1.26) == [
        "1 searchable, 1 unchanged, 1 can't be read, 1 failed in 1.3 s",
        "still being indexed since an earlier push: 1 (`kb docs list` shows them)",
        "left out: 2 x a link",
    ]


@pytest.mark.parametrize("name", ["Staff Handbook", "日本語", "x" * 300, "a/b", "-"])
def test_each_name_has_a_tag(name: str) -> None:
    assert is_identifier(tag_named(name))
    assert tag_named(name) == tag_named(name)


def test_a_document_can_not_control_the_terminal() -> None:
    assert visible("a\x1b[31mb\x9bc\u202ed\r\ne\tf") == "a[31mbcd\ne\tf"


@pytest.mark.parametrize(
    ("outcomes", "usual", "strict"),
    [
        ([], 0, 0),
        (["searchable", "unchanged"], 0, 0),
        (["unchanged", "unreadable"], 0, 1),
        (["deleted", "unreadable"], 0, 1),
        (["unreadable"], 1, 1),
        (["unchanged", "failed"], 1, 1),
    ],
)
def test_a_file_that_can_not_be_read_does_not_fail_the_others_unless_it_has_to(
    outcomes: list[OutcomeKind], usual: int, strict: int
) -> None:
    report = PushReport([FileOutcome(each, each, each) for each in outcomes])
    assert (report.exit_status(strict=False), report.exit_status(strict=True)) == (usual, strict)


def test_a_path_that_is_not_there_always_fails() -> None:
    report = PushReport([FileOutcome("a", "a", "unchanged")])
    report.add_problem(FileProblem(Path("b"), "there is no such file or folder", "check the path"))
    assert report.exit_status(strict=False) == 1
