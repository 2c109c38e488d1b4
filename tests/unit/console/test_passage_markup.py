"""Passages are read as Markdown, and nothing in them acts."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_console.passage_markup import render_passage
from kb_contracts.api.search import Highlight

_MARKUP = "# *_`~|-\n<>[]()!&\"' 1.:ab\ufdd0\ufdd1\\"


class _ReadMarkup(HTMLParser):
    """Collects the tags and the text of markup, and checks that the tags are nested."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in {"br", "hr"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"br", "hr"}:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(text: str, *highlights: Highlight) -> _ReadMarkup:
    reader = _ReadMarkup()
    reader.feed(render_passage(text, highlights))
    reader.close()
    return reader


def test_headings_emphasis_code_and_tables_are_rendered() -> None:
    page = render_passage("# Hotels\n\nThe **limit** of `eth0`\n\n```sh\nkb up\n```\n\n|a|b|\n|-|-|\n|1|2|")
    for part in ('<p class="heading">Hotels</p>', "<strong>limit</strong>", "<code>eth0</code>", "<td>1</td>"):
        assert part in page
    assert '<pre tabindex="0"><code>kb up\n</code></pre>' in page


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>", "[click](javascript:alert(1))", "![x](https://evil.example/pixel)",
        "<https://evil.example>", "<b hx-get=/console/ hx-trigger=load>", '```"><script>alert(1)</script>\nx\n```',
        "[a]: https://evil.example\n\n[a]",
    ],
)  # fmt: skip
def test_html_links_and_images_of_a_document_stay_text(hostile: str) -> None:
    read = _read(hostile)
    assert read.tags <= {"p", "br", "pre", "code"}
    assert read.attributes <= {"tabindex"}


def test_columns_of_a_table_have_no_inline_style_which_the_policy_of_pages_forbids() -> None:
    assert "<td>1</td>" in render_passage("|a|b|\n|:-:|-:|\n|1|2|")
    assert "style" not in render_passage("|a|b|\n|:-:|-:|\n|1|2|")


def test_words_of_a_query_are_marked_wherever_they_are() -> None:
    text = "# Hotels\n\nIn `hotels` and **hotels**"
    found = [Highlight(start=each.start(), end=each.end()) for each in re.finditer("(?i)hotels", text)]
    page = render_passage(text, found)
    assert page.count("<mark>") == 3
    assert "<code><mark>hotels</mark></code>" in page
    assert "<strong><mark>hotels</mark></strong>" in page


def test_lines_stay_lines_and_indentation_makes_no_code() -> None:
    page = render_passage("Austria 40 EUR\n      Japan 50 EUR")
    assert "Austria 40 EUR<br />\nJapan 50 EUR" in page
    assert "<pre" not in page


@given(st.text(alphabet=_MARKUP, max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=4))
def test_whatever_a_document_says_only_harmless_tags_come_of_it(text: str, spans: list[tuple[int, int]]) -> None:
    highlights, at = [], 0
    for start, size in sorted(spans):
        if at <= start < len(text):
            highlights.append(Highlight(start=start, end=min(start + size, len(text))))
            at = start + size
    read = _read(text, *highlights)
    assert read.tags <= {
        "p", "br", "hr", "pre", "code", "em", "strong", "s", "ul", "ol", "li", "blockquote", "mark", "div", "table",
        "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    assert read.attributes <= {"class", "tabindex", "role", "aria-label", "start"}
    kept = re.sub(r"[^ab1.]", "", unescape(read.text))
    assert len(kept) <= len(re.sub(r"[^ab1.]", "", text)), "nothing is added"
