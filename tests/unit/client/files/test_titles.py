"""Titles that a program or a template wrote give way to the next best name; those of people stay."""

import pytest

from kb_client.files.titles import own_title


@pytest.mark.parametrize(
    "title",
    [
        *[
            "Untitled document",
            "untitled",
            "Untitled-1",
            "Unbenanntes Dokument",
            "Unbenannt 1",
            "Sans titre",
            "Sin título",
        ],
        *[
            "Senza titolo 3",
            "Без имени 1",
            "無題",
            "无标题文档",
            "Document1",
            "Dokument1",
            "Documento 2",
            "Document (3)",
        ],
        *[
            "Slide 1",
            "Folie 12",
            "Diapositiva 1",
            "Book1",
            "Mappe1",
            "Template",
            "Vorlage",
            "Presentation",
            "Präsentation2",
        ],
        *["PowerPoint Presentation", "PowerPoint-Präsentation", "Présentation PowerPoint", "Microsoft Word-Dokument"],
        *[
            "Microsoft Word Document",
            "New Microsoft Word Document",
            "Neues Textdokument",
            "Microsoft Word - report.doc",
        ],
        *[
            "Microsoft PowerPoint - a [Compatibility Mode]",
            "Microsoft Excel",
            "LibreOffice Writer",
            "Title",
            "Titel",
            "Page 1",
        ],
        *["D:\\plans\\lift 3.cdr", r"\\server\share\lift.xyz", "/home/ada/lift.tmp", "file:///lift"],
        *["(no subject)", "  ", "", "Click to add title", "Untitled Page", "Enscript Output", "Untitled Presentation"],
    ],
)
def test_a_title_that_no_one_wrote_is_none(title: str) -> None:
    assert own_title(title) is None


@pytest.mark.parametrize(
    "title",
    [
        *[
            "Document control",
            "The Untitled Exhibition",
            "Slide rails",
            "Book of rules",
            "Template for letters",
            "Pages 3 to 7",
        ],
        *[
            "Title deeds",
            "Microsoft Word for beginners",
            "Form 1040",
            "Presentation of results",
            "Map of the site",
        ],
        *["Folie aus Polyethylen", "Slide 0", "Dokumentation", "Neues aus dem Werk", "Sheet metal", "Drawing rooms"],
    ],
)
def test_a_title_of_a_person_stays(title: str) -> None:
    assert own_title(f" {title}\n") == title
