"""Which marks of citations stay in an answer, which are part of its text, and what is code."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb_search.runs.mark_notation import MORE_THAN_FOUND, CitableNumbers
from kb_search.runs.marks import MarkStreamFilter, find_numbers, remove_all_marks, remove_unknown_marks

CITABLE = CitableNumbers.of_texts(
    ["The range of the valve is [1, 2] bar.", "Rule [1, 9] of the club. Booms\u00b2 at [S3]."]
)
"""Two passages."""
PIECES = st.lists(
    st.sampled_from(["[", "]", "1", "9", ",", " ", "\n", "a", "[1]", "[9]", " [9]", "mast", "0", "=", "(", ")", "$"])
    | st.sampled_from(["`", "``", "```", "~~~", "\\", "&", "#91;", "&#93;", "lbrack;", "{1}", "(1).", "[^1]", "[2-1]"])
    | st.sampled_from(["\u3010", "\u3011", "\u20201", "<sup>", "</sup>", "source ", "-", " and ", ";", "[1-2]", "p. 3"])
    | st.sampled_from(["<source>", "</source>", "<citat", "\u3014", "\u3015", "k\u00e4lla ", "\u6765\u6e90", "{"])
    | st.sampled_from(["<cite>", "</cite>", "see ", "^", ": a.md", "](h", "\\a", '{"a": '])
    | st.sampled_from(["\u00b9", "\u00b2\u00b3", "\u2070", "\u207b", "[S1]", "S", "(1)(2)", "meter", "per "]),
    max_size=14,
)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("so [ 1 ] and [ 9 ]", "so [ 1 ] and"),
        (r"so \[1\] and \[9\]", r"so \[1\] and"),
        ("so &#91;9&#93;, &#x5B;9&rbrack;", "so,"),
        ("so [1,\n9]", "so [1]"),
        ("so [\u0669]", "so"),
        ("sure [source 9] it [^9] is \u30109\u3011.", "sure it is."),
        # What is left must not be another one, nor code.
        ("[[9]9] [4[9]2] [ [9]7]", "[[?]9] [4[?]2] [[?]7]"),
        ("[9]([9]", "[9]([?]"),
        ("`[9]` ``[9]``` [9]", "`[9]` ``[?]```"),
        # Not every program takes these for code.
        ("``` so [9]", "``` so"),
        ("``` so ``` [9]\nso [9]", "``` so ```\nso"),
        (r"\`so [9]\`", r"\`so\`"),
        ("  ```\n[9]", "  ```\n"),
        ("````\n```\n[9]\n````\n[9]", "````\n```\n[9]\n````\n"),
        ("~~~ a\n[9]\n~~~~ \n[9]", "~~~ a\n[9]\n~~~~ \n"),
        ("in 2024 [9].", "in 2024."),
        ("the masts[9] stand", "the masts stand"),
        ("see [9](https://example.org/b) and masts[9](#b)", "see 9 (https://example.org/b) and masts9 (#b)"),
        ("masts [^9^] <cite>9</cite> [9: sails.pdf]", "masts"),
    ],
)
def test_a_mark_of_what_was_never_found_is_not_shown_as_one(written: str, shown: str) -> None:
    assert remove_unknown_marks(written, CITABLE) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("A mast \u30101\u3011, a boom \u30102\u2020manual.pdf\u3011.", "A mast [1], a boom [2]."),
        ("A mast \uff3b1\uff3d [1\u2020L4-L9].", "A mast [1] [1]."),
        ("A mast [^1] and a boom [#2].", "A mast [1] and a boom [2]."),
        ("Both [1-2], [1\u20132] or [1 to 2].", "Both [1, 2], [1, 2] or [1, 2]."),
        ("Both [1; 2], [1 and 2], [1, and 2], [1 & 2] or [1 und 2].", "Both" + " [1, 2]," * 3 + " [1, 2] or [1, 2]."),
        ("A mast [Source 1] [source: 2] [passage 1] [doc1] [Doc. 2].", "A mast [1] [2] [1] [1] [2]."),
        ("A mast [Quelle 1] [ref_2] [source 1, source 2].", "A mast [1] [2] [1, 2]."),
        ("The masts<sup>1</sup> stand.<sup>2</sup>", "The masts[1] stand.[2]"),
        ("The masts stand (1). Really (2)!", "The masts stand [1]. Really [2]!"),
        ("The masts stand (source 2), (Passage 1).", "The masts stand [2], [1]."),
        ("The masts stand {1}.", "The masts stand [1]."),
        ("A mast `[1]`.", "A mast [1]."),
        ("A mast [1, p. 3] or [2, pages 3-4].", "A mast [1], p. 3 or [2], pages 3-4."),
        ("Most [1, 2, 9], or [1-4].", "Most [1, 2], or [1, 2]."),
        ("the masts[1] and [[2]] [1][2]", "the masts[1] and [[2]] [1][2]"),
        ("The masts stand [^1^].<cite>2</cite>", "The masts stand [1].[2]"),
        ("The masts stand (see passage 2), [1: sails.pdf], [2 masts and booms.md].", "The masts stand [2], [1], [2]."),
        (
            "The masts\u00b9 stand.\u00b2 Both,\u00b9\u00b2 \u201cso\u201d\u00b9",
            "The masts[1] stand.[2] Both,[1, 2] \u201cso\u201d[1]",
        ),
        ("A mast [S1] and [s2], [S1, S2].", "A mast [1] and [2], [1, 2]."),
        (
            "The masts stand.(1)(2) So (1) (2).\nThey stand. (2)(1)",
            "The masts stand.[1, 2] So (1) (2).\nThey stand. [2, 1]",
        ),
        ("The masts stand (1)(2).", "The masts stand [1, 2]."),
        ("A mast [fuente 1], [k\u00e4lla 2], [\u6765\u6e901], [excerpt 2].", "A mast [1], [2], [1], [2]."),
        ("A mast \u30141\u3015 <source>2</source> <ref>1</ref><citation>[2]</citation>", "A mast [1] [2] [1][2]"),
        ("A mast [1, lines 3-4], [2, \u00a75], [1 (page 3)].", "A mast [1], lines 3-4, [2], \u00a75, [1], page 3."),
        ("see [2](https://example.org/a)", "see [2](https://example.org/a)"),
        ("\u5e06\u306f3\u679a\u3067\u3059[1]\u3002", "\u5e06\u306f3\u679a\u3067\u3059[1]\u3002"),
    ],
)
def test_a_citation_in_a_usual_notation_is_shown_as_one(written: str, shown: str) -> None:
    assert remove_unknown_marks(written, CITABLE) == shown
    assert set(find_numbers(written, CITABLE)) & {1, 2} == set(find_numbers(shown, CITABLE))


@pytest.mark.parametrize(
    "text",
    [
        "Reed v Dale [2017] UKSC 44, [1998] AC 3, at [433]",
        "a share in [0, 1], [0; 2] or [0-1]",
        "a[1], rows_2[1], q3[2], camelCase[1], x[1][2]",
        "if x[9] = 7, values[9](3)",
        "The film [12] Angry Men, a song of [1999]",
        "[1]st place, [7]x",
        "Digits are [1-2]{3}, the year \u30142019\u3015, <b>1</b>, [note 1], [Section 2]",
        r"\sqrt[2]{8} \frac[1]{2}",
        'It says {"masts": [1, 2]} and len([1, 2]).',
        "Section 23 (1-2) is for the grades (1 and 2) of pupils",
        r"the set $x \in [1, 2]$, $\{[9]\}$ and y = [1, 2]",
        "Range [1-50] or [2-1] or [5-9]",
        "page [007], id [1234567]",
        "Section 4 (1). See paragraph (2). (1) open, (2) close",
        "10<sup>2</sup> m<sup>2</sup>",
        "a {1} b {2}, {9}.",
        "The valve is [1, 2] bar, by Rule [1, 9] of the club.",
        "\u30104:0\u2020source\u3011",
        "[1, more] [see 1] [] [ ] [x]",
        "18 m\u00b2 of canvas, mc\u00b2, 10\u00b9\u00b2, x\u00b9, s\u207b\u00b9, 5\u00b2 + 4\u00b2, (a + b)\u00b2",
        "18 ells\u00b2, per ells\u00b2, Zentimeter\u00b2, sigma\u00b2, side\u00b2 = area\u00b9x",
        "sail\u00b3, mast \u00b9, mast\u00b9\u207b\u00b2",
        "Booms\u00b2 are round.",
        "The S4 stops at [S3], [S9] or (S1), rows_1[S1], S. 1",
        "(1) reef, (2) set. (1)(9) so. Art. (1)(2), see paragraphs (1)(2), class (1). f(1)(2) is (1)(2)x",
    ],
)
def test_brackets_that_are_part_of_the_text_stay_and_cite_nothing(text: str) -> None:
    assert remove_unknown_marks(text, CITABLE) == text
    assert not set(find_numbers(text, CITABLE)) - {1, 2}
    if "valve" in text or "$" in text or "a[1]" in text or "sqrt" in text or "len" in text or "grades" in text:
        assert list(find_numbers(text, CITABLE)) == []


def test_a_name_that_stands_in_a_passage_is_no_citation() -> None:
    harbour = CitableNumbers.of_texts(["The S1 stops at the harbour.", "So does the s7."])
    assert remove_unknown_marks("Take the [S1]. It is slow [S2].", harbour) == "Take the [S1]. It is slow [2]."


def test_an_invented_number_is_one_only_little_above_those_that_were_found() -> None:
    most = CITABLE.highest + MORE_THAN_FOUND
    assert remove_unknown_marks(f"so [{most}]", CITABLE) == "so"
    assert remove_unknown_marks(f"so [{most + 1}]", CITABLE) == f"so [{most + 1}]"
    assert list(find_numbers(f"[{most}] [{most + 1}]", CITABLE)) == [most]


def test_all_marks_of_an_earlier_answer_are_removed() -> None:
    assert remove_all_marks("A mast [1], a boom [2, 1]: [2020] `[1]`", CITABLE) == "A mast, a boom: [2020] `[1]`"


@example(["a ", "<cite>", "9", "</cite>", "(", "a"])
@given(PIECES)
def test_pieces_come_to_the_same_as_the_whole_and_cite_only_what_is_known(pieces: list[str]) -> None:
    stream = MarkStreamFilter(CITABLE)
    shown = "".join([*(stream.feed(piece) for piece in pieces), stream.end()])
    assert shown == remove_unknown_marks("".join(pieces), CITABLE)
    assert all(map(CITABLE.has, find_numbers(shown, CITABLE)))


ANSWERS = st.lists(
    st.sampled_from(
        [
            "The mast is 14 m high [1]. ",
            "Both say so [1-2]; ",
            "as in `rows[9]` or ``[1]``, ",
            "see \u30102\u2020manual.pdf\u3011 and [source 9], ",
            "Reed v Dale [2017] UKSC 44 ",
            "costs $5 [1] and $6 (2). ",
            "where $x \\in [1, 2]$ holds [^1], ",
            "\n```\nrows[1] [9]\n```\n",
            "it is <sup>1</sup> R&D &#91;2&#93; ",
            "(as said above) [1, p. 3].\n\n- ",
            "The booms\u00b9 are 14 m\u00b2.\u00b2 ",
            "So it is (1)(2), or [S2].(1) (2)\n",
            "| a [1] | b [9] |\n",
        ]
    ),
    max_size=6,
).map("".join)


@given(ANSWERS, st.lists(st.integers(1, 12), min_size=1, max_size=9))
def test_an_answer_that_is_cut_anywhere_is_shown_as_the_whole_one(answer: str, sizes: list[int]) -> None:
    stream, shown, at, number = MarkStreamFilter(CITABLE), "", 0, 0
    while at < len(answer):
        size = sizes[number % len(sizes)]
        shown += stream.feed(answer[at : at + size])
        at, number = at + size, number + 1
    assert shown + stream.end() == remove_unknown_marks(answer, CITABLE)


@pytest.mark.parametrize(
    "text",
    ["So it is", "So [1]: `rows[0]` and so", "A list [1, 2], then", "for $5 or $6 [see above] (as said) and so"],
)
def test_text_that_can_not_become_a_mark_is_passed_on_at_once(text: str) -> None:
    stream = MarkStreamFilter(CITABLE)
    assert "".join(map(stream.feed, text)) == text
