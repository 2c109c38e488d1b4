"""What the arguments of a push mean, and what is left out."""

import os
import unicodedata
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.document_ids import AmbiguousSource
from kb_client.files.file_problem import FileProblem
from kb_client.files.find_files import FoundFiles, count_by_reason, find_files
from kb_client.files.ignore_rules import UnusableIgnoreRules
from kb_client.files.limits import ParseLimits
from kb_client.files.path_pattern import matches_pattern
from kb_client.files.source_digest import digest_file


def create(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def paths(found: FoundFiles) -> set[tuple[str, str]]:
    return {(each.source, each.relative_path) for each in found.files}


def test_a_folder_means_its_files_in_all_folders(tmp_path: Path) -> None:
    docs = create(tmp_path / "docs", "a.md", "b/c.PDF", "b/d/e.txt")
    found = find_files([docs])
    assert paths(found) == {("docs", "a.md"), ("docs", "b/c.PDF"), ("docs", "b/d/e.txt")}
    assert found.complete_sources == {"docs"}
    assert not found.skipped


def test_an_id_is_the_same_from_wherever_the_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = create(tmp_path / "docs", "a.md")
    elsewhere = create(tmp_path / "copy" / "docs", "a.md")
    monkeypatch.chdir(docs)
    arguments: list[str | Path] = [
        docs,
        elsewhere,
        ".",
        "../docs",
        "a.md",
        docs / "a.md",
        docs / "*.md",
        str(tmp_path / "docs" / "**"),
    ]
    assert len({find_files([each]).files[0].document_id for each in arguments}) == 1
    assert len({each.document_id for each in find_files(arguments[2:]).files}) == 1


def test_a_decomposed_name_has_the_id_of_the_composed_one(tmp_path: Path) -> None:
    one = create(tmp_path / "1" / "docs", unicodedata.normalize("NFD", "Größe.md"))
    other = create(tmp_path / "2" / "docs", "Größe.md")
    assert find_files([one]).files[0].document_id == find_files([other]).files[0].document_id


def test_a_name_that_is_not_unicode_can_be_pushed(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xf6\xdfe.md")).write_text("text")
    [found] = find_files([tmp_path]).files
    assert isinstance(digest_file(found), str)
    found.relative_path.encode()


def test_what_no_one_means_is_left_out_and_counted(tmp_path: Path) -> None:
    docs = create(
        tmp_path / "docs",
        "a.md",
        ".git/x.md",
        ".b.md",
        "node_modules/m/README.md",
        "~$a.docx",
        "b.md~",
        "c.zip",
        "#d.md#",
    )
    create(tmp_path, "secret.txt")
    (docs / "link.txt").symlink_to(tmp_path / "secret.txt")
    (docs / "circle").symlink_to(docs)
    os.mkfifo(docs / "pipe.txt")
    found = find_files([docs])
    assert paths(found) == {("docs", "a.md")}
    assert count_by_reason(found.skipped) == {
        "a link": 2,
        "hidden": 2,
        "a temporary file": 3,
        "a folder of a tool, such as node_modules": 1,
        "files of a type that can't be read (.zip)": 1,
        "not a regular file": 1,
    }


def test_what_is_named_and_cannot_be_pushed_is_a_problem(tmp_path: Path) -> None:
    docs = create(tmp_path / "docs", "a.zip", ".b.md")
    os.mkfifo(docs / "pipe.txt")
    arguments = [
        docs / "a.zip",
        docs / "missing.md",
        docs / "*.pdf",
        docs / "no" / "*.md",
        docs / "pipe.txt",
        docs / ".b.md",
    ]
    found = find_files(arguments)
    assert [each.path for each in found.problems] == arguments[:5]
    assert paths(found) == {("docs", ".b.md")}


def test_two_folders_of_the_same_name_are_refused(tmp_path: Path) -> None:
    one, other = create(tmp_path / "1" / "docs", "a.md"), create(tmp_path / "2" / "docs", "a.md")
    with pytest.raises(AmbiguousSource, match="--source"):
        find_files([one, other])
    assert paths(find_files([one, other], root=tmp_path, source="all")) == {
        ("all", "1/docs/a.md"),
        ("all", "2/docs/a.md"),
    }


def test_nothing_counts_as_gone_when_a_folder_could_not_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = create(tmp_path / "docs", "a.md", "b/c.md")
    scandir = os.scandir

    # Root, who may run the tests, can list every folder.
    def refuse_one(folder: Path) -> Iterator[os.DirEntry[str]]:
        if folder == docs / "b":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse_one)
    found = find_files([docs])
    assert (found.complete_sources, [each.path for each in found.problems]) == (set(), [docs / "b"])


def test_only_a_whole_folder_is_complete(tmp_path: Path) -> None:
    docs = create(tmp_path / "docs", "a.md", "b/c.md")
    for arguments, root in (([docs / "a.md"], None), ([docs / "*.md"], None), ([docs / "b"], docs)):
        assert find_files(arguments, root=root).complete_sources == set()


def test_the_digest_follows_the_contents_alone(tmp_path: Path) -> None:
    docs = create(tmp_path / "docs", "a.md")
    [before] = find_files([docs]).files
    digest = digest_file(before)
    os.utime(docs / "a.md", (1, 1))
    [touched] = find_files([docs]).files
    assert digest_file(touched) == digest
    (docs / "a.md").write_text("other")
    assert digest_file(touched) != digest
    assert isinstance(digest_file(touched, ParseLimits(file_bytes=4)), FileProblem)


parts = st.lists(st.text("ab", min_size=1, max_size=2), max_size=4)
wildcards = st.lists(st.sampled_from(["**", "*", "a", "a*", "?", "[ab]b"]), max_size=5)


@given(parts, wildcards)
def test_a_pattern_matches_what_its_definition_says(path: list[str], pattern: list[str]) -> None:
    def defined(path: list[str], pattern: list[str]) -> bool:
        if not pattern:
            return not path
        if pattern[0] == "**":
            return defined(path, pattern[1:]) or (bool(path) and defined(path[1:], pattern))
        return bool(path) and fnmatchcase(path[0], pattern[0]) and defined(path[1:], pattern[1:])

    assert matches_pattern(path, pattern) == defined(path, pattern)


def names(found: FoundFiles) -> set[str]:
    return {each.relative_path for each in found.files}


def test_an_ignore_file_leaves_out_what_git_would(tmp_path: Path) -> None:
    docs = create(
        tmp_path / "docs", "a.md", "drafts/b.md", "x/drafts/c.md", "x/d.txt", "x/keep.txt", "old.md", "y/old.md"
    )
    (docs / ".kbignore").write_text(
        "# comment\r\n\r\ndrafts/\r\n*.txt\r\n!keep.txt\r\n/old.md\r\n", encoding="utf-8-sig"
    )
    found = find_files([docs])
    assert names(found) == {"a.md", "x/keep.txt", "y/old.md"}
    assert count_by_reason(found.skipped) == {"excluded by .kbignore": 4}


def test_the_innermost_ignore_file_that_names_a_file_decides(tmp_path: Path) -> None:
    docs = create(tmp_path / "docs", "a.txt", "in/a.txt", "in/b.txt", "in/c.md", "out/a.txt")
    (docs / ".kbignore").write_text("*.txt\nout\n")
    (docs / "in" / ".kbignore").write_text("!a.txt\n/c.md\n")
    (docs / "out" / ".kbignore").write_text("!a.txt\n")
    assert names(find_files([docs])) == {"in/a.txt"}


def test_exclude_decides_before_ignore_files_and_belongs_to_the_root(tmp_path: Path) -> None:
    docs = create(tmp_path / "docs", "a.md", "b.md", "in/a.md", "in/c.md")
    (docs / ".kbignore").write_text("!a.md\n")
    assert names(find_files([docs], exclude=["/a.md", "c.*"])) == {"b.md", "in/a.md"}
    assert names(find_files([docs / "in"], root=docs, exclude=["/a.md", "c.*"])) == {"in/a.md"}


@pytest.mark.parametrize("argument", ["in", "in/a.md", "in/*.md", "**/a.md"])
def test_rules_hold_for_whatever_names_a_file(tmp_path: Path, argument: str) -> None:
    docs = create(tmp_path / "docs", "in/a.md")
    (docs / ".kbignore").write_text("in/\n")
    found = find_files([docs / argument], root=docs)
    assert (names(found), [each.reason for each in found.skipped]) == (set(), ["excluded by .kbignore"])


def test_a_rule_in_composed_characters_names_a_decomposed_file(tmp_path: Path) -> None:
    docs = create(tmp_path / "docs", unicodedata.normalize("NFD", "Entwürfe/a.md"), "b.md")
    (docs / ".kbignore").write_text(unicodedata.normalize("NFC", "Entwürfe\n"))
    assert names(find_files([docs])) == {"b.md"}


@pytest.mark.parametrize("content", [b"!\n", b"\xff\xfe\n", None])
def test_nothing_is_found_by_rules_that_can_not_be_read(tmp_path: Path, content: bytes | None) -> None:
    docs = create(tmp_path / "docs", "in/a.md")
    file = docs / "in" / ".kbignore"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(UnusableIgnoreRules, match="nothing is sent"):
        find_files([docs])
    with pytest.raises(UnusableIgnoreRules, match="--exclude"):
        find_files([create(tmp_path / "other", "a.md")], exclude=["!"])


def test_types_that_can_not_be_read_are_counted_together(tmp_path: Path) -> None:
    docs = create(tmp_path / "docs", "a.md", "b.zip", "c.ZIP", "d.doc", "e")
    assert count_by_reason(find_files([docs]).skipped) == {"files of a type that can't be read ((none), .doc, .zip)": 4}
