"""Neighbours come once, with what they belong to, and never from another document."""

from hypothesis import given
from hypothesis import strategies as st

from kb_search.retrieval.coalescing import ChunkPosition, Piece, group_with_neighbours, merge_pieces, neighbour_ranges


def at(*indexes: int, document_id: str = "d", kb_id: str = "k") -> list[ChunkPosition]:
    return [ChunkPosition(kb_id, document_id, index) for index in indexes]


places = st.builds(ChunkPosition, st.sampled_from(["k1", "k2"]), st.sampled_from("abc"), st.integers(0, 12))
matches = st.lists(places, unique=True, max_size=8)


@given(matches, st.integers(0, 5))
def test_exactly_the_neighbours_are_read_and_nothing_twice(some: list[ChunkPosition], width: int) -> None:
    read = [
        ChunkPosition(kb_id, document_id, index)
        for kb_id, document_id, first, last in neighbour_ranges(some, width)
        for index in range(first, last + 1)
    ]
    wanted = {match.moved(by) for match in some for by in range(-width, width + 1)}
    assert len(read) == len(set(read))
    assert set(read) == {place for place in wanted if place.chunk_index >= 0}


@given(matches, st.sets(places), st.integers(0, 5))
def test_every_match_stands_once_in_a_group_of_its_own_document(
    some: list[ChunkPosition], there: set[ChunkPosition], width: int
) -> None:
    found = group_with_neighbours(some, there, width)
    flat = [place for group in found for place in group]
    assert len(flat) == len(set(flat))
    near = {match.moved(by) for match in some for by in range(-width, width + 1)}
    assert set(some) <= set(flat) <= set(some) | (there & near)
    touching = {match.moved(by) for match in some for by in (-1, 1)} if width else set()
    assert there & touching <= set(flat)
    for group in found:
        assert group == at(
            *range(group[0].chunk_index, group[-1].chunk_index + 1),
            document_id=group[0].document_id,
            kb_id=group[0].kb_id,
        )
        assert set(group) & set(some)
    best = [min(some.index(place) for place in group if place in some) for group in found]
    assert best == sorted(best)


def test_a_group_is_in_the_order_of_its_document_and_stands_where_its_best_match_does() -> None:
    ranked = [*at(7), *at(2, document_id="e"), *at(6)]
    assert group_with_neighbours(ranked, at(5, 6, 7, 8), 1) == [at(5, 6, 7, 8), at(2, document_id="e")]


def test_without_neighbours_the_ranks_are_the_order() -> None:
    assert group_with_neighbours(at(2, 1, 3), at(1, 2, 3), 0) == [at(2), at(1), at(3)]


@given(st.text(alphabet="ab", min_size=1, max_size=40), st.data())
def test_merged_pieces_say_each_part_of_the_document_once(document: str, data: st.DataObject) -> None:
    ends = sorted(data.draw(st.sets(st.integers(1, len(document)), max_size=4)) | {len(document)})
    starts = [0]
    for end in ends[:-1]:
        # A piece overlaps the one before it and no other.
        starts.append(max(end - data.draw(st.integers(0, 5)), starts[-1]))
    pieces = [Piece(document[start:end], start, end) for start, end in zip(starts, ends, strict=True)]
    # Pieces that only touch are parted by a line break.
    assert merge_pieces(pieces).replace("\n", "") == document


def test_pieces_that_do_not_overlap_stand_on_lines_of_their_own() -> None:
    assert merge_pieces([Piece("One.", 0, 4), Piece("Two.", 6, 10), Piece("o. Three.", 8, 17)]) == "One.\nTwo. Three."
    assert merge_pieces([]) == ""
