import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.embedding.recent_vectors import RecentVectors
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.vector import Vector

SPACE = VectorSpace("acme", "fingerprint", "model", 2, "query")
OTHER = VectorSpace("globex", "fingerprint", "model", 2, "query")


def vector(number: int) -> Vector:
    return np.asarray([number, 1], dtype=np.float32)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40), st.integers(1, 5))
def test_the_vectors_used_last_are_kept(uses: list[tuple[bool, int]], at_most: int) -> None:
    recent = RecentVectors(at_most=at_most)
    expected: list[int] = []  # used last comes last
    for keeps, number in uses:
        if keeps:
            recent.keep(SPACE, {str(number): vector(number)})
        else:
            assert {chunk_hash: found[0] for chunk_hash, found in recent.find(SPACE, [str(number)]).items()} == (
                {str(number): number} if number in expected else {}
            )
        if keeps or number in expected:
            expected = [*(one for one in expected if one != number), number][-at_most:]


def test_no_organization_is_given_the_vector_of_another() -> None:
    recent = RecentVectors()
    recent.keep(SPACE, {"same": vector(1)})
    assert recent.find(OTHER, ["same"]) == {}


def test_a_vector_does_not_outlive_its_time() -> None:
    recent = RecentVectors(lifetime_s=0)
    recent.keep(SPACE, {"hash": vector(1)})
    assert recent.find(SPACE, ["hash"]) == {}
