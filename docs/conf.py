"""The documentation as a site that needs no server and no network: `make docs` builds it with Sphinx into `site/`.

The pages are Markdown that is also read without the site. The sections of their index, README.md, are the navigation
too: `PARTS` says in which order, and below which pages.
"""

import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

project = "Knowledge bases"
author = "the authors of Knowledge bases"
root_doc = "README"
extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]
nitpicky = True
smartquotes = False

# The ids of headings are those of GitHub, so that one link serves both.
myst_heading_anchors = 6
# A block may be cut with an ellipsis, which is not of its language.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = project
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_show_copyright = False
# A page that was opened as a file can't read other pages, from which the summaries would come.
html_show_search_summary = False

PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "Tutorials": ("README", "Tutorials"),
    "How to": ("README", "How-to guides"),
    "Reference": ("README", "Reference"),
    "Explanation": ("README", "Explanation"),
    "Runbooks": ("reference/health", "Runbooks"),
    "Decisions": ("explanation/architecture", "Decisions"),
}
"""By section of the index: the page below which its pages stand in the sidebar, and their caption."""

_SECTION: Final = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!^## ).*\n)*)", re.MULTILINE)
_PAGE: Final = re.compile(r"\]\((?P<page>[\w/.-]+)\.md\)")
_LINK: Final = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>(?:\.\./)[^)\s]*)\)")


def setup(app: Any) -> None:
    """Connect the steps that make a site of the pages."""
    app.connect("source-read", _prepare_page)
    app.connect("build-finished", _copy_start_page)


def _prepare_page(app: Any, page: str, source: list[str]) -> None:
    text = _without_links_out_of_the_docs(page, source[0])
    source[0] = "\n\n".join([text, *_navigation_below(page, Path(app.srcdir, f"{root_doc}.md").read_text())])


def _navigation_below(page: str, index: str) -> Iterator[str]:
    """Return a table of contents, shown in the sidebar only, for each part that stands below a page."""
    sections = {match["title"]: match["body"] for match in _SECTION.finditer(index)}
    for title, (parent, caption) in PARTS.items():
        if parent == page:
            base = posixpath.dirname(page)
            pages = dict.fromkeys(posixpath.relpath(match["page"], base) for match in _PAGE.finditer(sections[title]))
            yield "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])


def _without_links_out_of_the_docs(page: str, text: str) -> str:
    """Replace links to other files of the repository, which the site does not contain, by the names of the files."""

    def name_of(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link["target"]))
        if not target.startswith("../"):
            return link[0]
        file = target.removeprefix("../").partition("#")[0]
        return link["text"] if link["text"].strip("`") == file else f"{link['text']} (`{file}`)"

    return _LINK.sub(name_of, text)


def _copy_start_page(app: Any, error: Exception | None) -> None:
    if error is None:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))
