from pathlib import Path

from benchmarks.corpus.documents import read_documents, select_documents, write_documents
from benchmarks.corpus.packages import list_pages
from benchmarks.corpus.page_text import read_page

LONG = "The quick brown fox jumps over the lazy dog. " * 10


def test_a_page_is_read_without_its_navigation_and_scripts() -> None:
    page = read_page(
        """<html lang="de-AT"><head><title>Kapitel\n 1</title><style>p {}</style></head><body>
        <div class="navheader"><div>weiter</div> oben</div>
        <h1>Ein <b>Titel</b><a class="headerlink">#</a></h1><p>Erster   Satz,
        der weitergeht.<p>Zweiter Absatz &amp; Ende.
        <ul><li>eins<li>zwei</ul><div role="navigation"><p>zurück</div>
        <pre>  a\n    b</pre><script>var x = "<p>";</script>
        <table><tr><td>Name</td><td>Wert</td></tr></table><footer>Fuß</footer></body></html>"""
    )

    assert page.title == "Kapitel 1"
    assert page.language == "de"
    assert page.text.splitlines() == [
        *("# Ein Titel", "", "Erster Satz, der weitergeht.", "", "Zweiter Absatz & Ende.", ""),
        *("- eins", "- zwei", "", "  a", "    b", "", "Name | Wert |"),
    ]


def test_text_goes_on_after_a_skipped_element_with_others_of_its_name_inside() -> None:
    assert read_page('<p>a<div class="path"><div>x</div><p>y</div>b').text == "a\n\nb"


def test_short_pages_and_pages_with_the_text_of_another_are_left_out(tmp_path: Path) -> None:
    _pages(tmp_path, {"a": f"<p>A {LONG}", "b": f"<p>A {LONG}", "c": "<p>short", "d": f"<p>D {LONG}"})

    selection = select_documents(list_pages(["doc"], tmp_path), most=10)

    assert sorted(each.text[:1] for each in selection.documents) == ["A", "D"]
    assert (selection.pages, selection.short, selection.doubled, selection.long) == (4, 1, 1, 0)


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(tmp_path: Path) -> None:
    _pages(tmp_path, {str(number): f"<p>{number} {LONG}" for number in range(30)})

    smaller, larger = (select_documents(list_pages(["doc"], tmp_path), most=most).documents for most in (7, 20))

    assert larger[:7] == smaller
    assert len(larger) == 20


def test_the_beginning_of_a_corpus_contains_pages_of_all_packages(tmp_path: Path) -> None:
    for package in ("a-doc", "b-doc"):
        _pages(tmp_path, {str(number): f"<p>{package} {number} {LONG}" for number in range(30)}, package=package)

    documents = select_documents(list_pages(["b-doc", "a-doc"], tmp_path), most=15).documents

    packages = [each.tag_ids[0] for each in documents]
    assert min(packages.count(package) for package in ("a-doc", "b-doc")) >= 3


def test_a_written_corpus_is_read_as_it_was(tmp_path: Path) -> None:
    _pages(tmp_path, {"a": f"<html lang='fr'><title>Été</title><p>{LONG}\u2028é", "b": f"<p>{LONG}"})
    documents = select_documents(list_pages(["doc"], tmp_path), most=10).documents

    write_documents(documents, tmp_path / "corpus.jsonl")

    assert list(read_documents(tmp_path / "corpus.jsonl")) == documents
    assert list(read_documents(tmp_path / "corpus.jsonl", most=1)) == documents[:1]


def test_tags_are_the_package_and_the_section(tmp_path: Path) -> None:
    _pages(tmp_path, {"manual/de/mod/mod_cache": f"<p>{LONG}"})

    [document] = select_documents(list_pages(["doc"], tmp_path), most=1).documents

    assert document.tag_ids == ("doc", "doc.mod")


def _pages(folder: Path, pages: dict[str, str], *, package: str = "doc") -> None:
    for name, html in pages.items():
        file = folder / package / "usr" / "share" / "doc" / package / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(html)
