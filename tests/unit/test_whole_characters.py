"""Surrogates in what models say: pairs become characters, halves are replaced."""

from hypothesis import given
from hypothesis import strategies as st

from kb_shared.text.whole_characters import WholeCharacters, whole_characters

SAID = st.text(alphabet=st.sampled_from("a\ud83d\ude00\U0001f600\ufeff"))


def test_a_pair_becomes_its_character_and_a_half_is_replaced() -> None:
    assert whole_characters("\ufeff\ud83d\ude00 \ude00\ud83d x\ud83d") == "\ufeff\U0001f600 \ufffd\ufffd x\ufffd"


@given(st.lists(SAID))
def test_pieces_come_to_the_same_as_the_whole(pieces: list[str]) -> None:
    characters = WholeCharacters()
    taken = [*(characters.feed(piece) for piece in pieces), characters.end()]
    assert "".join(taken) == whole_characters("".join(pieces))
    for each in taken:
        each.encode()
