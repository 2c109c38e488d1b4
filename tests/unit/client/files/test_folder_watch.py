"""A watch reports a file when it is at rest, once, and in the end everything."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.found_file import FoundFile
from kb_client.files.watch import FolderWatch

contents = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))


def files(versions: dict[str, int]) -> list[FoundFile]:
    return [FoundFile(Path(name), "docs", name, version, version) for name, version in versions.items()]


def ids(*names: str) -> set[str]:
    return {each.document_id for each in files(dict.fromkeys(names, 0))}


@given(contents, st.lists(contents, max_size=10))
def test_what_was_reported_makes_the_folder_as_it_is_once_it_rests(
    first: dict[str, int], steps: list[dict[str, int]]
) -> None:
    watch = FolderWatch(files(first), quiet_s=1)
    copy = {each.document_id: each for each in files(first)}
    last = steps[-1] if steps else first
    for second, step in enumerate([*steps, last, last, last]):
        changes = watch.observe(files(step), now_s=second * 0.6)
        assert copy.items().isdisjoint({each.document_id: each for each in changes.changed}.items())
        copy |= {each.document_id: each for each in changes.changed}
        copy = {each: file for each, file in copy.items() if each not in changes.gone}
    assert copy == {each.document_id: each for each in files(last)}
    assert not watch.observe(files(last), now_s=100)


def test_a_file_that_is_being_written_is_reported_at_its_end() -> None:
    watch = FolderWatch([], quiet_s=1)
    assert not any(watch.observe(files({"a": size}), now_s=size * 0.5) for size in range(20))
    changes = watch.observe(files({"a": 19}), now_s=11)
    assert [each.size_bytes for each in changes.changed] == [19]


def test_a_file_that_an_editor_replaces_is_never_gone() -> None:
    watch = FolderWatch(files({"a": 1}), quiet_s=1)
    steps = [{"a": 1}, {}, {"a": 2}, {"a": 2}, {"a": 2}, {"a": 2}]
    changes = [watch.observe(files(step), now_s=number * 0.5) for number, step in enumerate(steps)]
    assert [each.gone for each in changes] == [frozenset()] * len(steps)
    assert [file.size_bytes for each in changes for file in each.changed] == [2]


def test_a_deleted_file_is_gone_once() -> None:
    watch = FolderWatch(files({"a": 1, "b": 1}), quiet_s=1)
    gone = [watch.observe(files({"b": 1}), now_s=now).gone for now in (0, 0.5, 1, 1.5)]
    assert gone == [set(), set(), ids("a"), set()]
