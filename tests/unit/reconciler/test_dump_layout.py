"""Files of a backup are read as they were written, and nothing else is taken for one."""

import gzip
from pathlib import Path

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_reconciler.backup.dump_layout import DumpFile, check_file, count_rows, iterate_rows, join_files, rows_path
from kb_reconciler.backup.errors import DamagedBackup

ROWS = st.lists(st.dictionaries(st.text("ab", max_size=3), st.text(max_size=20) | st.integers(0, 9), max_size=3))


@given(parts=st.lists(ROWS, max_size=3))
def test_rows_of_joined_files_are_those_of_the_parts(
    parts: list[list[dict[str, object]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("joined")
    entries = []
    for number, rows in enumerate(parts):
        file = DumpFile(folder, f"part-{number}")
        batch = b"".join(map(bson.encode, rows))
        count, last = count_rows(batch)
        assert (count, last) == (len(rows), bson.encode(rows[-1]) if rows else b"")
        file.write(batch, rows=count)
        entries.append(file.finish())
    joined = join_files(folder, "kb/all.bson.gz", parts=entries)
    check_file(folder, joined)
    expected = [bson.encode(row) for rows in parts for row in rows]
    assert list(iterate_rows(folder, joined)) == expected
    # mongorestore needs a gzip stream in an empty file, too.
    assert gzip.decompress((folder / joined.path).read_bytes()) == b"".join(expected)


@given(cut=st.integers(1, 60))
def test_a_file_that_ends_early_is_noticed_also_without_its_checksum(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    file = DumpFile(folder, "rows")
    file.write(b"".join(bson.encode({"_id": n, "text": "x" * n}) for n in range(20)), rows=20)
    entry = file.finish()
    content = gzip.decompress((folder / "rows").read_bytes())
    (folder / "rows").write_bytes(gzip.compress(content[:-cut]))
    with pytest.raises(DamagedBackup):
        list(iterate_rows(folder, entry))


def test_an_abandoned_file_leaves_nothing(tmp_path: Path) -> None:
    file = DumpFile(tmp_path, "rows")
    file.write(b"half")
    file.abandon()
    assert list(tmp_path.iterdir()) == []


def test_names_of_files_are_those_of_collections() -> None:
    assert rows_path("kb", "document_texts.chunks") == "kb/document_texts.chunks.bson.gz"
    assert rows_path("kb", "a/b") == "kb/a%2Fb.bson.gz"
