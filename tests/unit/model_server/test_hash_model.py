import numpy as np
import pytest

from kb_local.model_server.hash_model import dimensions_of, vector_of


def test_vectors_are_the_same_for_ever() -> None:
    assert vector_of("a text", dimensions=3).tolist() == pytest.approx([0.0621523, -0.3354847, 0.9399932], abs=1e-6)


@pytest.mark.parametrize("dimensions", [1, 2, 64, 1536, 8192])
def test_vectors_have_length_one_in_any_dimension(dimensions: int) -> None:
    vector = vector_of("a text", dimensions=dimensions)

    assert vector.shape == (dimensions,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_texts_that_differ_have_vectors_far_apart() -> None:
    vectors = np.array([vector_of(f"text {number}", dimensions=1536) for number in range(50)])
    cosines = vectors @ vectors.T - np.eye(50)

    assert np.abs(cosines).max() < 0.15


def test_only_whole_names_of_possible_dimensions_are_hash_models() -> None:
    assert dimensions_of("hash-1536") == 1536
    assert [dimensions_of(name) for name in ("hash-0", "hash-8193", "hash-07", "hash-64\n", "minilm")] == [None] * 5
