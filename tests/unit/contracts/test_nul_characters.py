"""A text has no NUL characters; pages stay where they are in it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.api.documents import PutDocument
from kb_contracts.documents import OcrCompleted
from kb_contracts.metadata import MAX_WARNINGS
from kb_contracts.nul_characters import without_nul_characters

FIELDS: dict[str, Any] = {"document_name": "a.pdf", "tag_ids": [], "upload_date": "2026-01-31T12:00:00Z"}


@given(st.lists(st.text(st.sampled_from("aü\x00")), max_size=5))
def test_each_page_has_its_own_characters(pages: list[str]) -> None:
    ends = [len("".join(pages[: n + 1])) for n in range(len(pages))]
    named = [
        {"page": n, "start": end - len(page), "end": end} for n, (page, end) in enumerate(zip(pages, ends, strict=True))
    ]
    cleaned = without_nul_characters({"text": "".join(pages), "pages": named})
    found = [cleaned["text"][page["start"] : page["end"]] for page in cleaned["pages"]]
    assert found == [page.replace("\x00", "") for page in pages]


@pytest.mark.parametrize("pages", [None, 3, [3], [{"page": 1, "start": "0", "end": True}], [{"page": 1}]])
def test_what_is_no_page_is_left_to_the_model(pages: Any) -> None:
    assert without_nul_characters({"text": "a\x00b", "pages": pages})["pages"] == pages


def test_an_event_and_a_request_say_how_many_were_left_out() -> None:
    body = {**FIELDS, "text": "Gate\x00s open\x00", "reading_warnings": ["It was guessed."]}
    request = PutDocument.model_validate(body)
    event = OcrCompleted.model_validate({**body, "organization_id": "o", "document_id": "d", "revision": 1})
    assert request.text == event.text == "Gates open"
    expected = ["It was guessed.", "2 NUL characters were left out of the text"]
    assert list(request.reading_warnings or ()) == list(event.reading_warnings or ()) == expected


def test_so_many_warnings_are_kept_that_there_is_room_for_this_one() -> None:
    warnings = [f"{n}." for n in range(MAX_WARNINGS)]
    cleaned = without_nul_characters({"text": "\x00a", "reading_warnings": warnings})
    assert len(PutDocument.model_validate({**FIELDS, **cleaned}).reading_warnings or ()) == MAX_WARNINGS
    assert "1 NUL" in cleaned["reading_warnings"][-1]
