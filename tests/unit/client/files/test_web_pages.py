"""The text of a page is what a browser shows of it, or would after one click, and nothing is glued or reordered."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument
from kb_client.files.formats.html.page import extract
from kb_client.files.formats.html.tree import parse_html
from kb_client.files.formats.html.visibility import keep_shown
from kb_client.files.limits import ParseLimits


def read(page: str | bytes, *, of_site: bool = False) -> Extraction:
    data = page.encode() if isinstance(page, str) else page
    return extract(data, ExtractOptions(ParseLimits(), web_links=of_site))


SENTENCE = "Bicycles are kept in the cellar of the east wing."
PROSE = " ".join([SENTENCE, "Each one has a number from the caretaker.", "Lamps and helmets are stored beside it."] * 3)


@pytest.mark.parametrize("of_site", [False, True])
@pytest.mark.parametrize(
    "page",
    [
        "<!doctype html><title>T</title><main><p>{}</main>",
        "<!doctype html><meta charset=utf-8><my-page><p>{}</my-page>",
        "<title>T</title><article><p>{}</article>",
        "<form method=post action=x.aspx><input type=hidden name=state value=abc><h1>H</h1><p>{}</p></form>",
        "<main><form><table><tr><td><p>{}</p></td></tr></table></form></main>",
        "<nav><p>{}</p></nav>",
        "<div role=navigation><div>{}</div></div>",
        "<noscript><p>{}</p></noscript>",
        "<template><p>{}</p></template>",
        "<my-card><template shadowrootmode=open><p>{}</p></template></my-card><p>And more than that, far below.</p>",
        "<object><p>{}</p></object>",
        "<object data=a.swf><p>{}</p></object>",
        "<svg viewBox='0 0 9 9'><text x=1 y=1>{}</text></svg>",
        "<iframe srcdoc='&lt;p&gt;{}&lt;/p&gt;'></iframe>",
        "<aside>{}</aside>",
        "<footer>{}</footer>",
        "<header>{}</header>",
        "<body style='display:none'><p>{}</p></body>",
        "<div hidden><p>{}</p></div>",
        "<dialog open>{}</dialog>",
        "<main></main><div>{}</div>",
        "<main><h1>Bicycles</h1></main><div>{}</div>",
        "<article><h2>News</h2></article><div>{}</div>",
        "<div aria-hidden=true><p>{}</p></div>",
        "<fieldset><legend>L</legend>{}</fieldset>",
        "<p>{}",
        "<table><tr><td>{}",
        "</p></div>{}",
        "<frameset><noframes>{}</noframes></frameset>",
        "<textarea>{}</textarea>",
        "<details><summary>Where?</summary>{}</details>",
        "<p>{}</p><!-- an unclosed comment",
        "<plaintext>{}",
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title/><script src=x /></head><body><p>{}</p></body></html>",
        "<?xml version='1.0'?><html><body><p><![CDATA[{}]]></p></body></html>",
    ],
)
def test_a_page_that_shows_a_text_has_it(page: str, *, of_site: bool) -> None:
    assert SENTENCE in read(page.format(SENTENCE), of_site=of_site).text


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>{}</p>",
        "<div style='Display: none'>{}</div>",
        "<div style='visibility:hidden'>{}</div>",
        "<script>var x = '{}'</script>",
        "<style>{}</style>",
        "<noscript>{}</noscript>",
        "<template>{}</template>",
        "<dialog>{}</dialog>",
        "<div popover>{}</div>",
        "<video>{}</video>",
        "<canvas>{}</canvas>",
        "<p style='position:absolute; left:-9999px'>{}</p>",
        "<p style='position:absolute;clip:rect(1px, 1px, 1px, 1px)'>{}</p>",
        "<p style='font-size:0'>{}</p>",
        "<p style='display:none !important; display:block'>{}</p>",
        "<div style='visibility:hidden'>{}<p style='visibility:visible'>The gate.</p></div>",
        "<svg><defs><text>{}</text></defs><text>North</text></svg>",
        "<a-card><template shadowrootmode=open><slot name=t>{}</slot></template><b slot=t>Keys</b></a-card>",
        "<object data=a.pdf type=application/pdf>{}</object>",
        "<iframe src=x>{}</iframe>",
        "<datalist id=d><option>{}</datalist>",
        "<input type=hidden value='{}'>",
        "<input type=password value='{}'>",
        "<input placeholder='{}'>",
        "<select><option>One<option>{}</select>",
        "<nav><ul><li><a href=a>{}</a><li><a href=b>Home</a></ul></nav>",
        "<!-- {} -->",
        "<svg><title>{}</title><path d=x></svg>",
        "<span class=katex-html aria-hidden=true>{}</span>",
        "<span class='price sr-only'>{}</span>",
        "<sup><a href=#n>[3]</a></sup><span style='display:none'>{}</span>",
        "<i class=material-icons aria-hidden=true>{}</i>".replace("{}", "unseen"),
    ],
)
def test_what_no_one_sees_is_left_out(hidden: str) -> None:
    text = read(f"<p>{PROSE}</p>{hidden.format('unseen words')}<p>The end.").text
    assert "unseen" not in text
    assert PROSE in text
    assert "The end." in text


@pytest.mark.parametrize(
    "panel",
    [
        "<button aria-controls=p1>Open</button><p>between</p><div id=p1 hidden>{}</div>",
        "<button popovertarget=p2>Open</button><p>between</p><div id=p2 popover>{}</div>",
        "<a data-bs-target='#p3'>Open</a><p>between</p><div id=p3 style='display:none'>{}</div>",
        "<a href='#p4'>Open</a><p>between</p><section id=p4 hidden>{}</section>",
        "<div role=tabpanel hidden>{}</div>",
        "<div hidden=until-found>{}</div>",
        "<h3><button aria-expanded=false>Open</button></h3><div hidden>{}</div>",
        "<dt><a href='#'>Open</a></dt><dd style='display: none'>{}</dd>",
        "<div class='accordion-body' style='display:none'>{}</div>",
        "<div class='tab-pane' hidden>{}</div>",
        "<details><summary>Open</summary>{}</details>",
        "<div id=accordion><h3>Open</h3><div style='display:none'>{}</div></div>",
        "<p>First<span id=more style='display:none'>{}</span></p><button>Read more</button>",
        "<div class=expand-control>Open</div><div class=expand-content style='display:none'>{}</div>",
        "<div class='carousel-item' style='display:none'>{}</div>",
        "<div style='visibility:hidden'>gone<p style='visibility:visible'>{}</p></div>",
        "<p style='display:none; display:block'>{}</p>",
        "<p style='--x:1; background:url(a?display:none)'>{}</p>",
        "<p style='opacity:0'>{}</p>",
        "<button commandfor=p5 command=show-modal>Open</button><dialog id=p5>{}</dialog>",
    ],
)
def test_what_one_click_opens_is_a_part_of_the_text(panel: str) -> None:
    assert "a spare key" in read(f"<h1>Keys</h1><p>{PROSE}</p>{panel.format('a spare key')}").text


@pytest.mark.parametrize(
    ("markup", "line"),
    [
        ("<input type=submit value='Book a bed'>", "Book a bed"),
        ("<select><option>One<option>Two</select>", "One"),
        ("<select multiple><option>Tea<option>Milk</select>", "Tea, Milk"),
        ("<span style='display:block'>Bed</span><span style='display: block'>Desk</span>", "Bed\n\nDesk"),
        (
            "<a class=__cf_email__ data-cfemail='2a42455f594f6a424b41044f524b475a464f'>[email&#160;protected]</a>",
            "house@hak.example",
        ),
        ("<a data-cfemail='zz'>[email protected]</a>", "[email protected]"),
        (
            "<a-b><template shadowrootmode=open><i><slot name=n>?</slot></i><slot></slot></template><b slot=n>A</b> 2",
            "***A*** 2",
        ),
        ("<button>Day</button><button>Night</button>", "Day Night"),
        ("<label>Name</label><input value='Ada Roth'>", "Name Ada Roth"),
        ("<p>Hold <img src=a.png alt='the red lever'> for a second.", "Hold the red lever for a second."),
        ("<p>Hold<img alt='the lever'>now", "Hold the lever now"),
        ("<p>Hold <svg role=img aria-label='the lever'><path/></svg> now", "Hold the lever now"),
        ("<p>Nothing <img alt='IMG_0042.jpg'>here", "Nothing here"),
        ("<p>5 &times; 10<sup>7</sup> cells", "5 \u00d7 10^7 cells"),
        ("<p>CO<sub>2</sub>", "CO₂"),
        ("<p>18 CHF<sup>2</sup>", "18 CHF^2"),
        ("<p>3<sup>1</sup>/<sub>4</sub> inch", "3 1/4 inch"),
        ("<p>the 3<sup>rd</sup> floor", "the 3rd floor"),
        (
            "<math><mi>F</mi><mo>=</mo><mi>m</mi><msup><mi>v</mi><mn>2</mn></msup><annotation>F</annotation></math>",
            "F = mv^2",
        ),
        ("<math><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac></math>", "(a + b)/2"),
        ("<math><msqrt><mi>x</mi></msqrt><mo>&#8804;</mo><msub><mi>y</mi><mi>k</mi></msub></math>", "√(x) ≤ yₖ"),
        ("<ol type=a><li>red<li>blue</ol>", "a. red\nb. blue"),
        ("<ol type=I start=4><li>red<li>blue</ol>", "IV. red\nV. blue"),
        ("<ol reversed><li>red<li>blue</ol>", "2. red\n1. blue"),
        ("<ol><li>red<li value=7>blue<li>green</ol>", "1. red\n7. blue\n8. green"),
        ("<ol style='list-style-type:lower-roman'><li>red<li>blue</ol>", "i. red\nii. blue"),
        ("<p>war&shy;ran&shy;ty", "warranty"),
        ("<ruby>漢字<rp>(</rp><rt>kanji</rt><rp>)</rp></ruby>", "漢字(kanji)"),
        ("<input type=checkbox checked> Paid <input type=checkbox> Sent", "[x] Paid [ ] Sent"),
        ("<select><option>Bern<option selected>Basel</select>", "Basel"),
        ("<header>Works</header><section>Rules</section><footer>End</footer>", "Works\n\nRules\n\nEnd"),
        ("<summary>When?</summary><div>Now.</div>", "When?\n\nNow."),
        ("<p>so it is<sup><a href=#n>[3]</a></sup>, see<sup>2)</sup>", "so it is[3], see^2)"),
        ("<p>now <span aria-hidden=true>€8</span><span class=sr-only>8 euros</span>", "now €8"),
        ("<p>No.</p><p style='display:none'>Unseen, although it is longer than the rest.</p>", "No."),
        ("<nav><a href=a>Home</a> <a href=b>Products</a></nav><p>Short.</p>", "Short."),
        ("<p># 4 is the number of the room.", "#\u00a04 is the number of the room."),
        ("<del>4 days</del> 6 days", "~~4 days~~ 6 days"),
        ("<p>price <a href=x>list</a>, <b>all</b> of it", "price list, **all** of it"),
    ],
)
def test_words_numbers_and_marks_are_as_a_reader_sees_them(markup: str, line: str) -> None:
    assert read(f"<body>{markup}").text == line


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        (
            "<tr><th>Room<th>Size<tr><td rowspan=2>Attic<td>9<tr><td>12",
            "| Room | Size |\n| --- | --- |\n| Attic | 9 |\n| Attic | 12 |",
        ),
        (
            "<tr><th>Room<th>Mon<th>Tue<tr><td>Attic<td colspan=2>closed",
            "| Room | Mon | Tue |\n| --- | --- | --- |\n| Attic | closed | closed |",
        ),
        (
            "<thead><tr><th rowspan=2>Item<th colspan=2>Price<tr><th>net<th>gross<tbody><tr><td>Oil<td>8<td>9",
            "| Item | Price net | Price gross |\n| --- | --- | --- |\n| Oil | 8 | 9 |",
        ),
        ("<tr><th>A<th>B<tr><td>x|y<td>z", "| A | B |\n| --- | --- |\n| x\\|y | z |"),
        ("<tr><td><h1>Rooms</h1><p>The attic.<td><h2>Sizes</h2>", "# Rooms\n\nThe attic.\n\n## Sizes"),
        ("<tr><td><table><tr><th>A<th>B<tr><td>1<td>2</table>", "| A | B |\n| --- | --- |\n| 1 | 2 |"),
        ("<tr><td>one<tr><td>two", "one\n\ntwo"),
    ],
)
def test_each_row_of_a_table_has_its_cells_and_layout_is_no_table(table: str, lines: str) -> None:
    assert read(f"<table>{table}</table>").text == lines


def test_the_main_part_counts_only_if_it_holds_most_of_the_text() -> None:
    around = "<header>Works</header><nav><a href=a>Home</a></nav>{}<footer>Imprint and terms of use</footer>"
    marked = read(around.format(f"<main><p>{PROSE}</p></main><aside>Other things</aside>"), of_site=True).text
    assert marked == PROSE
    teaser = read(around.format(f"<article>New: lamps</article><div><p>{PROSE}</p></div>"), of_site=True).text
    assert teaser == f"New: lamps\n\n{PROSE}"


@pytest.mark.parametrize(
    "part",
    [
        "<aside><p>Note: {}</p></aside>",
        "<blockquote>So it is.<footer>{}</footer></blockquote>",
        "<header><p>{}</p></header>",
        "<footer>{}</footer>",
    ],
)
def test_what_stands_around_a_part_of_the_text_belongs_to_it(part: str) -> None:
    page = "<article><h2>{}</h2>" + part + f"<p>{PROSE}</p></article>"
    text = read(page.format(*["first words"] * 2) + page.format(*["second words"] * 2), of_site=True).text
    assert text.count("first words") == text.count("second words") == 2
    assert "kept" in read(f"<p>{PROSE}</p><aside><blockquote>It is kept.</blockquote></aside>", of_site=True).text


def test_a_program_in_a_table_keeps_its_lines_and_loses_their_numbers() -> None:
    table = "<table><tr><td><pre>1\n2</pre><td><pre>open()\nclose()\n</pre></table>"
    assert read(f"<p>Then</p>{table}").text == "Then\n\n```\nopen()\nclose()\n```"


def test_a_page_that_only_asks_for_scripts_has_no_text() -> None:
    page = "<script src=a></script><div id=x></div><noscript>You need to enable JavaScript to use this.</noscript>"
    assert read(page, of_site=True).text == ""
    with pytest.raises(UnreadableDocument, match="shows its text by scripts"):
        read(page)


@pytest.mark.parametrize("title", ["Untitled Document", "Unbenanntes Dokument 2", "", "  "])
def test_the_title_of_a_template_gives_way_to_the_first_heading(title: str) -> None:
    assert read(f"<title>{title}</title><h1>House rules</h1><p>{PROSE}").title == "House rules"


def test_a_page_that_asks_for_a_million_cells_gets_few() -> None:
    table = "<table>" + "<tr><td rowspan=1000 colspan=1000>x" * 100 + "</table>"
    assert len(read(f"<p>{SENTENCE}</p>{table}").text) < 1_000_000


@given(st.lists(st.sampled_from(["<div>", "<p>", "<form>", "<nav>", "<b>", "</div>", "<td>", "<li>", "<pre>"])))
def test_however_broken_a_page_is_its_words_are_kept_once(tags: list[str]) -> None:
    page = "".join(f"{tag}word{number} follows here " for number, tag in enumerate(tags)) + PROSE
    text = read(page).text
    assert all(text.count(f"word{number} ") == 1 for number in range(len(tags)))


def test_areas_of_a_map_are_links() -> None:
    page = read("<map name=m><area href=/hall shape=rect coords=0,0,9,9></map><p><a href=/cellar>C</a>", of_site=True)
    assert page.web_links is not None
    assert page.web_links.links == ("/hall", "/cellar")


def test_hidden_elements_within_many_others_cost_no_more_than_elsewhere() -> None:
    few, many = (_count_calls(size) for size in (100, 400))
    assert many < 5 * few


def _count_calls(size: int) -> int:
    """Return the number of calls for as many hidden elements as there are elements around them."""
    page = parse_html("<div>" * size + f"<p>{PROSE}</p>" + "<b hidden>x</b>" * size)
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        keep_shown(page)
    finally:
        sys.setprofile(before)
    return calls
