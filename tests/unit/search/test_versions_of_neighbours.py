"""What stands beside a match is of the version of the document that the match was shown of."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kb_search.store.found_chunks import select_same_versions


def row(document_id: str, index: int, *, since: int = 1, until: int | None = None) -> dict[str, Any]:
    return {"document_id": document_id, "chunk_index": index, "since": since, "until": until}


def test_neighbours_of_live_chunks_are_live() -> None:
    rows = [row("d", 0), row("d", 1, until=2), row("e", 0)]
    assert select_same_versions(rows, [row("d", 2, since=3)]) == [rows[0]]


def test_neighbours_of_a_replaced_chunk_were_replaced_with_it() -> None:
    older, same, live = row("d", 0, until=1), row("d", 1, until=2), row("d", 1, since=3)
    assert select_same_versions([older, same, live], [row("d", 2, until=2)]) == [same]


@given(st.lists(st.builds(row, st.sampled_from("de"), st.integers(0, 3), until=st.none() | st.integers(1, 3))))
def test_without_matches_there_are_no_neighbours(rows: list[dict[str, Any]]) -> None:
    assert select_same_versions(rows, []) == []
