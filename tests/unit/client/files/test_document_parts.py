"""A long document becomes parts that are whole, small enough, and as independent of each other as can be."""

from datetime import UTC, datetime

import pytest

from kb_client.files import document_parts
from kb_client.files.document_ids import make_document_id
from kb_client.files.document_parts import (
    count_further_parts,
    digest_of_file,
    file_id,
    parts_prefix,
    split_document,
)
from kb_client.files.parsed_file import ParsedFile
from kb_contracts.documents import Page
from kb_contracts.identifiers import is_identifier

FILE = make_document_id("handbook-of-an-organization-with-a-longer-", relative_path=f"{'long-name ' * 20}.md")


def document(text: str, pages: tuple[Page, ...] = ()) -> ParsedFile:
    return ParsedFile(
        FILE, "Manual", text, pages, datetime(2026, 1, 31, tzinfo=UTC), "text/plain", "d1", warnings=("a warning",)
    )


def sections(count: int, *, words: str = "word ", repeated: int = 200) -> list[str]:
    return [f"# Section {number}\n\n{words * repeated}" for number in range(count)]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_parts, "MOST_TOKENS", 3_000)
    monkeypatch.setattr(document_parts, "_LONGEST", (6_000, 3_000, 1_500))


def test_a_document_that_fits_stays_as_it_is() -> None:
    whole = document("word " * 80_000)
    assert split_document(whole) == (whole,)


@pytest.mark.parametrize(
    "text", ["x7Qz9 " * 700_000, "\n".join(sections(4_000)), "本" * 1_400_000], ids=["a", "b", "c"]
)
def test_four_megabytes_become_parts_within_the_limit(text: str) -> None:
    parts = split_document(document(text))
    assert len(parts) > 1
    assert max(document_parts.estimate_tokens(each.text) for each in parts) <= document_parts.MOST_TOKENS
    assert "".join("".join(each.text for each in parts).split()) == "".join(text.split())


@pytest.mark.usefixtures("small_parts")
def test_parts_are_documents_of_their_own_with_the_same_file() -> None:
    parts = split_document(document("\n\n".join(sections(40))))
    ids = [each.document_id for each in parts]
    assert ids[0] == FILE
    assert len(set(ids)) == len(ids)
    assert all(map(is_identifier, ids))
    assert {file_id(each) for each in ids} == {FILE}
    assert all(each.startswith(parts_prefix(FILE)) for each in ids[1:])
    assert parts[0].document_name == "Manual (part 1)"
    assert all(each.document_name.startswith("Manual (part: Section ") for each in parts[1:])
    assert [each.warnings for each in parts] == [("a warning",)] + [()] * (len(parts) - 1)
    assert digest_of_file(parts[0].source_digest) == "d1"
    assert count_further_parts(parts[0].source_digest) == len(parts) - 1


@pytest.mark.usefixtures("small_parts")
def test_a_change_of_one_section_leaves_the_parts_far_from_it_as_they_are() -> None:
    texts = sections(60)
    before = {each.document_id: each.source_digest for each in split_document(document("\n\n".join(texts)))}
    texts[0] += "more words " * 30
    after = {each.document_id: each.source_digest for each in split_document(document("\n\n".join(texts)))}
    kept = before.items() & after.items()
    assert len(kept) > len(before) / 2


@pytest.mark.usefixtures("small_parts")
def test_pages_are_cut_at_the_limits_of_parts() -> None:
    texts = sections(40)
    text, pages, at = "\n\n".join(texts), [], 0
    for number, each in enumerate(texts, start=1):
        pages.append(Page(page=number, start=at, end=at + len(each)))
        at += len(each) + 2
    parts = split_document(document(text, tuple(pages)))
    shown = [(page.page, part.text[page.start : page.end].strip()) for part in parts for page in part.pages]
    assert shown == [(number, each.strip()) for number, each in enumerate(texts, start=1)]


@pytest.mark.usefixtures("small_parts")
def test_parts_that_begin_alike_have_different_ids() -> None:
    parts = split_document(document("\n\n".join(["# Same\n\n" + "word " * 900] * 12)))
    assert len({each.document_id for each in parts}) == len(parts) > 3


@pytest.mark.parametrize(
    "document_id", ["docs.a-1f0c5a9be2d77c40", "docs.a.pdf", "docs.a.p123", "docs", "docs.", "a.b.c.p12345678"]
)
def test_other_ids_are_those_of_no_part(document_id: str) -> None:
    assert file_id(document_id) == document_id


def test_a_digest_without_parts_counts_none() -> None:
    assert [count_further_parts(each) for each in (None, "d1", "d1+", "d1+x", "d1+2")] == [0, 0, 0, 0, 2]
