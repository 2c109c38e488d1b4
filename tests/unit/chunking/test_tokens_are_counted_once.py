import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.chunking import count_tokens, counted_text
from kb_shared.chunking.counted_text import CountedText
from tests.unit.chunking.corpora import scripts

ALL_SCRIPTS = "".join(text[:400] + " " for text in scripts(repeats=2).values())

pieces = st.one_of(
    st.sampled_from([text[:n] for text in scripts(repeats=1).values() for n in (3, 40)]),
    st.text(" \t\n\r\x1c\u3000'\u017fsS1.,a漢", max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
texts = st.lists(pieces, max_size=12).map("".join)


@given(texts, st.data())
def test_the_tokens_of_any_span_are_those_of_its_text_alone(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert CountedText(text).count(start, end) == count_tokens(text[start:end])


@pytest.mark.parametrize("window", [50, 333])
def test_spans_are_counted_right_where_a_long_text_had_to_be_cut_for_the_tokenizer(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted_text, "_WINDOW_CODE_POINTS", window)
    counted = CountedText(ALL_SCRIPTS)
    for start in range(0, len(ALL_SCRIPTS), 97):
        for end in (start + 30, start + 200, start + 900):
            assert counted.count(start, min(end, len(ALL_SCRIPTS))) == count_tokens(ALL_SCRIPTS[start:end])


@given(texts)
def test_the_tokens_of_neighbours_add_up(text: str) -> None:
    counted, middle = CountedText(text), len(text) // 2
    assert counted.between(0, middle) + counted.between(middle, len(text)) == count_tokens(text)
