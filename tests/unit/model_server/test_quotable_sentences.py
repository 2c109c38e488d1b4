import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_local.model_server.quotable_sentences import MOST_CHARACTERS, Passage, QuotableSentence, read_sentences


def sentences(text: str) -> list[QuotableSentence]:
    return read_sentences([Passage("[1]", text, source="a.md")])


def texts(text: str) -> list[str]:
    return [each.text for each in sentences(text)]


def test_the_lines_of_a_paragraph_are_joined_and_no_sentence_is_cut_at_a_line_end() -> None:
    assert texts("The mode is set so that they\ncan do what is needed. It is\noff by default.") == [
        "The mode is set so that they can do what is needed.",
        "It is off by default.",
    ]


@pytest.mark.parametrize(
    "heading",
    [
        "# Parental leave\n\n{}",
        "Parental leave\n==============\n\n{}",
        "Parental leave\n\n{}",
        "3.2. Parental leave\n\n{}",
        "4. Parental leave\n\n{}",
        "Parental leave\n--------------\n{}",
    ],
)
def test_a_heading_is_never_quoted_and_says_what_the_sentence_below_it_is_about(heading: str) -> None:
    (found,) = sentences(heading.format("It has to be announced seven weeks before."))
    assert found.text == "It has to be announced seven weeks before."
    assert found.about.startswith("a.md ")
    assert found.about.endswith("Parental leave")


def test_a_question_is_never_quoted_and_belongs_to_the_first_answer_below_it() -> None:
    faq = "7. Can it handle .Z files?\n\n    No, sorry. You have to adapt\n    the code. Or ask.\n\n8. Why?\n\n    So."
    found = sentences(faq)
    assert [each.text for each in found] == ["No, sorry. You have to adapt the code.", "Or ask.", "So."]
    assert [each.asked for each in found] == ["Can it handle .Z files?", "", "Why?"]


def test_a_numbered_line_above_a_text_is_a_heading_although_a_list_is_above_it() -> None:
    faq = (
        "3. Where?\n\n    * in a manual\n    * in a file\n\n4. It returns an error.\n\n    Make sure that it has room."
    )
    assert sentences(faq)[-1] == QuotableSentence("[1]", "Make sure that it has room.", "a.md It returns an error.")
    assert "It returns an error." not in texts(faq)
    assert texts("1. Install it.\n2. Start it.\n3. Ask it.") == ["Install it.", "Start it.", "Ask it."]


def test_the_letters_of_question_and_answer_are_not_quoted() -> None:
    (found,) = sentences("Q:  I have xz, but tar can't\n    read it. What now?\n\nA:  Use a pipe.")
    assert (found.text, found.asked) == ("Use a pipe.", "I have xz, but tar can't read it. What now?")


def test_a_row_of_a_table_is_quoted_below_its_head_and_a_rule_is_not() -> None:
    (found,) = sentences("| Stand | Next calibration |\n|---|:---:|\n| P4 | January 2026 |\n+----+----+")
    assert (found.text, found.about) == ("P4 | January 2026", "a.md Stand | Next calibration")


def test_a_line_that_ends_with_a_colon_is_quoted_with_what_it_announces() -> None:
    assert texts("The request is made so:\n\n  openssl req -new")[0] == "The request is made so: openssl req -new"
    assert texts("Run this:\n```\nkb up\n```")[0] == "Run this: kb up"
    assert texts("You need:\n\n- a key\n- a lock")[0] == "You need: - a key - a lock"


def test_a_line_that_announces_what_is_not_there_is_not_whole() -> None:
    assert [each.is_whole for each in sentences("Look here for more:")] == [False]


def test_a_sentence_that_the_passage_cuts_is_not_whole() -> None:
    found = sentences(
        "single call. The limit is four. And these counters are there for your convenience but they are not"
    )
    assert [each.is_whole for each in found] == [False, True, False]


@pytest.mark.parametrize(
    "text",
    [
        "It takes approx. 3 days.",
        "See fence.py and app.py for it.",
        "Ask Dr. J. Smith for it.",
        "It begins on 3. Oktober at noon.",
        "See e.g. the manual, no. 5, and fig. 7.",
        "Most (all?) authorities encode it.",
    ],
)
def test_a_full_stop_within_a_sentence_ends_none(text: str) -> None:
    assert texts(f"{text}\nThe next one.") == [text, "The next one."]


def test_sentences_end_where_they_end() -> None:
    assert texts(
        'It needs licence B. Boats are booked early. "So it is." No. 5 is red!  \u7d42\u308f\u308a\u3002\u6b21\u3002'
    ) == [
        "It needs licence B.",
        "Boats are booked early.",
        '"So it is."',
        "No. 5 is red!",
        "\u7d42\u308f\u308a\u3002\u6b21\u3002",
    ]


def test_images_html_and_directives_are_left_out() -> None:
    shown = "[![B](https://a/b)](c)\n<p id='a'>\n.. image:: a.png\n   :target: b\n\nIt is a library.\n</p>"
    assert texts(shown) == ["It is a library."]


def test_records_of_a_list_of_lines_are_not_joined() -> None:
    assert texts(
        "Invoice: 91; Due: 2025-10-02; Amount: 8120.00 EUR\nInvoice: 92; Due: 2025-10-04; Amount: 640.50 EUR"
    ) == [
        "Invoice: 91; Due: 2025-10-02; Amount: 8120.00 EUR",
        "Invoice: 92; Due: 2025-10-04; Amount: 640.50 EUR",
    ]


LINES = st.one_of(
    st.text(alphabet=st.characters(exclude_characters="\n"), max_size=60),
    st.sampled_from(
        [
            "# Heading",
            "Heading",
            "====",
            "- an item of a list",
            "2. an item.",
            "| a | b |",
            "|---|---|",
            "```",
            "code --line",
            "A sentence that ends.",
            "the rest of a sentence. And",
            "Which question?",
            "Q: Why?",
            "A: So.",
            "It is so:",
            "",
        ]
    ),
)


@given(st.lists(st.tuples(st.sampled_from(["[1]", "[2]", ""]), st.lists(LINES, max_size=12)), max_size=4))
def test_what_can_be_quoted_stands_in_its_passage_whole_and_in_order(passages: list[tuple[str, list[str]]]) -> None:
    given_passages = [Passage(citation, "\n".join(lines)) for citation, lines in passages]
    found = read_sentences(given_passages)
    for each in found:
        assert len(each.text) <= MOST_CHARACTERS
        assert not re.search(r"[?]$", each.text)
        assert any(each.citation == one.citation and each.text in " ".join(one.text.split()) for one in given_passages)
    assert len({each.text for each in found}) == len(found)


@given(st.lists(st.sampled_from(["It is red.", "So it is.", "Yes.", "# One", "## Two", "- item here", "Three\n---"])))
def test_no_heading_is_ever_quoted(blocks: list[str]) -> None:
    for each in sentences("\n\n".join(blocks)):
        assert not re.search(r"One|Two|Three|#|---", each.text)
