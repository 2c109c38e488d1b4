"""Check a built site: every link leads to a file and an id of it, and nothing is fetched from elsewhere.

python check_site.py site
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

_FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class PageContents(HTMLParser):
    """Ids of a page, its links, and what a browser fetches for it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif (attribute := _FETCHED.get(tag)) and attribute in values:
            self.fetched.append(values[attribute])


def findings(site: Path) -> Iterator[str]:
    """Yield a line for each link that leads nowhere, and for each file that is not in the site."""
    pages = {file.resolve(): PageContents(file.read_text()) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        for address in page.fetched:
            url = urlsplit(address)
            if url.scheme != "data" and not _is_beside(file, url):
                yield f"{name}: fetches {address}"
        for address in page.links:
            url = urlsplit(address)
            if url.scheme or url.netloc:
                continue
            target = pages.get((file.parent / unquote(url.path)).resolve() if url.path else file)
            has_id = not url.fragment or target is None or unquote(url.fragment) in target.ids
            if not _is_beside(file, url) or not has_id:
                yield f"{name}: links to {address}"


def _is_beside(file: Path, url: SplitResult) -> bool:
    """Say whether an address in a page is a file of the site; one without a path is the page itself."""
    return not (url.scheme or url.netloc) and (not url.path or (file.parent / unquote(url.path)).is_file())


if __name__ == "__main__":
    found = list(findings(Path(sys.argv[1])))
    sys.exit("\n".join(found) if found else 0)
