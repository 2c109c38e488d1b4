"""Vectors of pieces in their surroundings, by a model whose tokens are words that know their neighbours."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from kb_shared.embedding.late_models import vectors_of_pieces
from kb_shared.embedding.late_text import LateText
from kb_shared.embedding.models import ModelCatalogue
from kb_shared.mongo.vector import Vector
from kb_shared.settings import EmbeddingSettings

Offsets = Sequence[tuple[int, int]]
SIZE = 64


class WordEncoder:
    """A word's vector is its own and half of each neighbour's; begin and end are tokens of the model's own."""

    def __init__(self, *, max_tokens: int = 1_000) -> None:
        self.max_tokens = max_tokens
        self.read: list[str] = []

    def offsets(self, text: str) -> Offsets:
        return [match.span() for match in re.finditer(r"\S+", text)]

    def token_vectors(self, text: str) -> tuple[Offsets, NDArray[np.float32]]:
        self.read.append(text)
        offsets = self.offsets(text)
        assert len(offsets) + 2 <= self.max_tokens, "a model leaves out what is too long for it"
        own = np.array([own_vector(text[begin:end]) for begin, end in offsets]).reshape(-1, SIZE)
        around = own.copy()
        around[1:] += own[:-1] / 2
        around[:-1] += own[1:] / 2
        added = np.full((1, SIZE), 1e6, np.float32)
        return [(0, 0), *offsets, (0, 0)], np.concatenate([added, around, added]).astype(np.float32)

    def query_vector(self, text: str) -> Vector:
        return own_vector(text)


def own_vector(word: str) -> Vector:
    return np.random.default_rng(list(word.encode())).normal(size=SIZE).astype(np.float32)


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return found


def piece(window: str, text: str) -> LateText:
    start = window.index(text)
    return LateText(window, start, start + len(text))


def vector_of(late: LateText, model: WordEncoder | None = None) -> Vector:
    (vector,) = vectors_of_pieces(model or WordEncoder(), [late])
    return vector


@given(st.text(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_piece_is_read_as_it_was_written(window: str, start: int, end: int) -> None:
    late = LateText(window, start, end)
    assert LateText.read(late.written()) == late


def test_a_text_that_was_not_written_as_a_piece_is_one_by_itself() -> None:
    assert LateText.read("How many dimensions?") == ("How many dimensions?", 0, 20)


def test_the_vector_of_a_piece_is_the_mean_of_its_tokens_in_the_window() -> None:
    a, b, c, d = (own_vector(word).astype(np.float64) for word in "abcd")
    found = vector_of(piece("a b c d", "b c"))
    assert found == pytest.approx(unit((b + a / 2 + c / 2) + (c + b / 2 + d / 2)), abs=1e-5)
    assert found.dtype == np.float32


def test_the_same_words_elsewhere_have_another_vector() -> None:
    here, there, alone = (vector_of(piece(window, "b c")) for window in ("a b c d", "x b c y", "b c"))
    assert not np.allclose(here, there)
    assert not np.allclose(here, alone)


def test_a_token_that_a_piece_shares_with_its_neighbour_counts_for_both() -> None:
    whole = vector_of(LateText("ab", 0, 2))
    assert vector_of(LateText("ab", 0, 1)) == pytest.approx(whole)
    assert vector_of(LateText("ab", 1, 2)) == pytest.approx(whole)


def test_a_piece_without_a_token_has_the_vector_of_its_window() -> None:
    assert vector_of(LateText("a   b", 2, 3)) == pytest.approx(vector_of(LateText("a   b", 0, 5)))


def test_a_window_is_read_once_for_all_of_its_pieces() -> None:
    model = WordEncoder()
    vectors = vectors_of_pieces(model, [piece("a b c", each) for each in "abc"])
    assert len(vectors) == 3
    assert model.read == ["a b c"]


def test_nothing_of_a_window_that_is_too_long_for_the_model_is_left_out() -> None:
    words = [f"w{number}" for number in range(100)]
    window = " ".join(words)
    model = WordEncoder(max_tokens=20)
    vectors = vectors_of_pieces(model, [piece(window, f"{word} ") for word in words[:-1]])
    for word, vector in zip(words, vectors, strict=False):
        assert unit(own_vector(word).astype(np.float64)) @ vector > 0.5
    assert "".join(model.read) == window


def test_a_late_model_needs_no_key_and_is_loaded_from_the_configured_folder() -> None:
    catalogue = ModelCatalogue({}, local_models_api_base=None, environment={}, late_models={"jina": "/models/jina"})
    model = catalogue.get("jina")
    assert (model.name, model.late_source, model.access) == ("jina", "/models/jina", None)
    assert catalogue.provider_of("jina") == "local"
    assert [each.name for each in catalogue.described()] == ["jina"]
    elsewhere = ModelCatalogue({}, local_models_api_base=None, environment={}, late_models={"jina": "/models/other"})
    assert elsewhere.get("jina").fingerprint != model.fingerprint


def test_late_models_without_what_runs_them_are_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_LATE_MODELS", '{"jina": "/models/jina"}')
    with pytest.raises(ValidationError, match="extra `late`"):
        EmbeddingSettings()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    assert EmbeddingSettings().late_models == {"jina": "/models/jina"}
