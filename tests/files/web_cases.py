"""Pages as sites, editors and browsers make them."""

from typing import Final

from tests.files.case import Case, Expected
from tests.files.text_cases import GUESSED, JAPANESE, RUSSIAN


def _page(
    name: str,
    body: str,
    *shows: Expected,
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    title: str | None = None,
    head: str = "",
) -> Case:
    markup = f"<!doctype html><html><head><meta charset=utf-8>{head}</head><body>{body}</body></html>"
    return _raw(name, markup.encode(), *shows, hides=hides, warns=warns, title=title)


def _raw(
    name: str,
    data: bytes,
    *shows: Expected,
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    title: str | None = None,
) -> Case:
    return Case(name, ".html", data, shows, hides, warns, title)


_LONG: Final = " ".join(f"Rule {n} of the marina says that berth {n} is left by noon." for n in range(1, 30))

WRAPPERS: Final = [
    _page(
        "a form around the whole page is no form",
        f"<form action=/><h1>Marina</h1><p>{_LONG}<p>Fuel: dock 4.</form>",
        "Marina",
        "Rule 7",
        "Fuel: dock 4.",
    ),
    _page(
        "a form shows what is filled in",
        "<form><label>Boat <input value='Sea Gull'></label><label>Draft <input value='1.7 m'></label></form><p>Below.",
        "Boat",
        "Sea Gull",
        "Draft",
        "1.7 m",
        "Below.",
    ),
    _page(
        "chosen options are shown",
        "<label>Dock <select><option>East<option selected>West</select></label>",
        "Dock",
        "West",
    ),
    _page("a text area shows its text", "<p>Remark <textarea>Crane is broken</textarea>", "Remark", "Crane is broken"),
    _page("a page in a nav shows", f"<nav><p>{_LONG}</p></nav>", "Rule 1 ", "Rule 29 "),
    _page(
        "menus are left out",
        f"<nav><ul><li><a href=/a>Harbours</a><li><a href=/b>Prices</a></ul></nav><main><p>{_LONG}</main>",
        "Rule 3",
        hides=("Harbours",),
    ),
    _page(
        "a page for browsers without scripts shows",
        "<script src=app.js></script><noscript><p>The ferry leaves at 7:40.</noscript>",
        "The ferry leaves at 7:40.",
    ),
    _page("an empty main part is no page", f"<main></main><div>{_LONG}</div>", "Rule 5"),
    _page("a teaser is not the page", f"<article>Read more about us</article><div>{_LONG}</div>", "Rule 5", "Rule 29"),
    _page(
        "declarative shadow roots show",
        "<lock-times><template shadowrootmode=open><p>Lock 2 opens at six.</p></template></lock-times>",
        "Lock 2 opens at six.",
    ),
    _page("a drawing shows its texts", "<p>Plan</p><svg><text x=1 y=2>Pier 9</text></svg>", "Pier 9"),
    _page(
        "details open by a click",
        "<details><summary>Where is the key?</summary><p>Behind the bell.</details>",
        "Where is the key?",
        "Behind the bell.",
    ),
    _page(
        "a table for the layout is no table",
        "<table><tr><td><p>Opening hours of the yard</p><ul><li>Mo 8-12<li>Tu 9-13</ul></td></tr></table>",
        "Opening hours of the yard",
        "Mo 8-12",
        "Tu 9-13",
    ),
]

HIDDEN: Final = [
    _page(
        "panels of tabs show",
        "<div role=tablist><button role=tab aria-controls=a>Sail</button><button role=tab aria-controls=b>Motor</button></div><div id=a role=tabpanel>Rig 14 m</div><div id=b role=tabpanel hidden>Diesel 20 kW</div>",
        "Sail",
        "Motor",
        "Rig 14 m",
        "Diesel 20 kW",
        hides=("SailMotor",),
    ),
    _page(
        "answers behind buttons show",
        "<h3><button aria-expanded=false aria-controls=q1>How deep is it?</button></h3><div id=q1 hidden>Three metres.</div>",
        "How deep is it?",
        "Three metres.",
    ),
    _page(
        "what a search finds is there",
        "<div hidden=until-found>Winter storage costs 90 €.</div>",
        "Winter storage costs 90 €.",
    ),
    _page("hidden text is not there", "<p>Open text.<p hidden>Draft 12 secret", "Open text.", hides=("Draft 12",)),
    _page(
        "text without display is not there", "<p>Seen.<p style='display:none'>Unseen coupon", "Seen.", hides=("coupon",)
    ),
    _page(
        "styles and scripts are no text",
        "<style>p{color:red}</style><script>let knots=4</script><p>Anchors",
        "Anchors",
        hides=("color", "knots"),
    ),
    _page("a wrapper that readers skip shows", f"<div aria-hidden=true><p>{_LONG}</div>", "Rule 2"),
    _page("comments are no text", "<p>Bow<!-- stern --> thruster", "Bow thruster", hides=("stern",)),
]

MARKUP: Final = [
    _page("exponents are not digits", "<p>About 10<sup>9</sup> grains.", ("10^9", "10⁹"), hides=("109",)),
    _page("indices are not digits", "<p>SO<sub>2</sub> and x<sub>10</sub>", ("SO₂", "SO_2"), hides=("x10",)),
    _page("negative exponents are kept", "<p>5 × 10<sup>-4</sup> mol", ("10^-4", "10⁻⁴", "10^(-4)", "10^{-4}")),
    _page("footnote marks are not digits", "<p>The fee is 30<sup>2</sup> euros.", ("30^2", "30²"), hides=("302",)),
    _page("square metres are kept", "<p>A berth of 48 m<sup>2</sup>.", ("48 m^2", "48 m²"), hides=("m2",)),
    _page(
        "formulas are kept",
        "<math><mi>F</mi><mo>=</mo><mi>m</mi><msup><mi>v</mi><mn>2</mn></msup></math>",
        "F",
        ("v^2", "v²"),
        hides=("v2",),
    ),
    _page(
        "pictures say what they show",
        "<p>Turn <img alt='the red lever' src=l.png> left.",
        "Turn",
        "the red lever",
        "left.",
    ),
    _page("lists have the numbers that are shown", "<ol start=4><li>Loosen<li>Lift</ol>", "4.", "Loosen", "5.", "Lift"),
    _page(
        "lists have letters",
        "<ol type=a><li>Bow line<li>Stern line</ol>",
        "a",
        "Bow line",
        "b",
        "Stern line",
        hides=("1.",),
    ),
    _page("struck prices are marked", "<p><s>80 €</s> 64 €", ("~~80 €~~", "~~80 €~~ 64 €"), "64 €"),
    _page("soft hyphens are not in words", "<p>har&shy;bour mas&shy;ter", "harbour master"),
    _page("lines end where they end", "<p>Dock 1<br>Dock 2", "Dock 1", "Dock 2", hides=("1Dock",)),
    _page("code is kept", "<pre>tide --port 3\n  --utc</pre>", "tide --port 3", "--utc"),
    _page(
        "definitions belong to terms",
        "<dl><dt>Draft<dd>depth of the keel</dl>",
        "Draft",
        "depth of the keel",
        hides=("Draftdepth",),
    ),
    _page("readings stand beside words", "<ruby>港<rt>みなと</rt></ruby>", "港"),
]

PAGE_TABLES: Final = [
    _page(
        "marked names of columns are names",
        "<table><tr><th>Berth<th>Length<tr><td>A<td>9 m<tr><td>B<td>12 m</table>",
        "Berth",
        "Length",
        "A",
        "9 m",
        "B",
        "12 m",
    ),
    _page(
        "names of rows are names",
        "<table><tr><th>Skipper<td>Lena Voss<tr><th>Phone<td>0431 55</table>",
        "Skipper",
        "Lena Voss",
        "Phone",
        "0431 55",
        hides=("Skipper: Phone", "Lena Voss: 0431 55"),
    ),
    _page(
        "cells over two rows belong to both",
        "<table><tr><th>Pier<th>Berth<th>Fee<tr><td rowspan=2>North<td>1<td>20<tr><td>2<td>25</table>",
        "North",
        "1",
        "20",
        "North",
        "2",
        "25",
    ),
    _page(
        "cells over two columns belong to both",
        "<table><tr><th>Boat<th colspan=2>Fee<tr><td>Dinghy<td>5<td>9<tr><td>Yacht<td>15<td>29</table>",
        "Boat",
        "Dinghy",
        "5",
        "9",
        "Yacht",
        "29",
    ),
    _page(
        "lists in cells stay in their cells",
        "<table><tr><th>Day<th>Jobs<tr><td>Mon<td><ul><li>paint<li>oil</ul></table>",
        "Day",
        "Jobs",
        "Mon",
        "paint",
        "oil",
    ),
]

BROWSERS: Final = [
    _raw(
        "a page without html and body shows",
        b"<!doctype html><meta charset=utf-8><title>Slipway</title><main><p>The slipway is closed.</main>",
        "The slipway is closed.",
        title="Slipway",
    ),
    _raw("unclosed elements show", b"<p>Buoy <b>red<p>Buoy <i>green", "Buoy red", "Buoy green"),
    _raw("a fragment shows", b"Ropes are <em>coiled</em> clockwise.", "Ropes are coiled clockwise."),
    _raw("text after the end shows", b"<html><body><p>Before.</p></body></html><p>After.", "Before.", "After."),
    _raw(
        "letters of Windows that call themselves Latin-1 are read",
        "<meta charset=iso-8859-1><p>Depth – 3 m, fee € 9, don’t anchor".encode("cp1252"),
        "Depth – 3 m, fee € 9, don’t anchor",
    ),
    _raw(
        "Chinese that calls itself GB 2312 is read",
        "<meta charset=gb2312><p>码头镕基每天开放。".encode("gb18030"),
        "码头镕基每天开放。",
    ),
    _raw(
        "Japanese that calls itself x-sjis is read", f"<meta charset=x-sjis><p>①{JAPANESE}".encode("cp932"), "①図書館"
    ),
    _raw(
        "a name that can't be true is ignored",
        "<meta charset=iso-8859-1><p>Zażółć gęślą jaźń – 5 €".encode(),
        "Zażółć gęślą jaźń – 5 €",
    ),
    _raw("Russian without a name is guessed", f"<p>{RUSSIAN}".encode("cp1251"), "Дети до семи лет", warns=GUESSED),
    _raw("UTF-16 that is named UTF-8 is read", "<meta charset=utf-8><p>Möwen".encode("utf-16"), "Möwen"),
    _raw(
        "XHTML is read",
        b'<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>Locks</title></head><body><p>Gate<br/>two</p></body></html>',
        "Gate",
        "two",
        title="Locks",
    ),
    _raw(
        "a page that a program wrote as XML shows no markup",
        b"<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.1//EN' 'x'><html><body><p>Ferries</p><iframe src='ad'/><p>Quay 8</p></body></html>",
        "Ferries",
        "Quay 8",
        hides=("<p>",),
    ),
    _raw(
        "what Word saves as a page is read",
        b"<html xmlns:o='urn:schemas-microsoft-com:office:office'><head><meta charset=windows-1252><!--[if gte mso 9]><xml><o:Author>Kim</o:Author></xml><![endif]--></head><body><p class=MsoNormal>Mooring plan<o:p></o:p></p><p>Line \x96 aft</p></body></html>",
        "Mooring plan",
        "Line – aft",
        hides=("Kim",),
    ),
    _page("entities are letters", "<p>5 &lt; 7 &amp; 3 &#8364; &#x80;", "5 < 7 & 3 € €"),
    _page("a page of scripts alone is refused", "<div id=root></div><script src=app.js></script>", warns="scripts"),
    _page(
        "a title of a program gives way",
        "<h1>Harbour rules</h1><p>Quiet after ten.",
        "Quiet after ten.",
        head="<title>Untitled Document</title>",
        title="Harbour rules",
    ),
    _page("an empty page is refused", "<p> </p>", warns="no text"),
]

CASES: Final = [*WRAPPERS, *HIDDEN, *MARKUP, *PAGE_TABLES, *BROWSERS]
