import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "scripts" / "check_site.py"


def check(site: Path, body: str) -> str:
    (site / "index.html").write_text(f"<h1 id='top'>Index</h1>{body}")
    (site / "page.html").write_text("<h1 id='a-heading'>Page</h1>")
    done = subprocess.run([sys.executable, str(PROGRAM), str(site)], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(done.stderr)
    return done.stderr.strip()


def test_links_that_lead_somewhere_are_no_findings(tmp_path: Path) -> None:
    links = ("#top", "page.html", "page.html#a-heading", "https://example.com/")
    assert check(tmp_path, "".join(f"<a href='{link}'>x</a>" for link in links)) == ""


def test_links_to_missing_pages_and_missing_headings_are_findings(tmp_path: Path) -> None:
    links = ("#bottom", "nowhere.html", "page.html#another-heading")
    assert check(tmp_path, "".join(f"<a href='{link}'>x</a>" for link in links)).splitlines() == [
        f"index.html: links to {link}" for link in links
    ]


def test_what_would_be_fetched_from_elsewhere_is_a_finding(tmp_path: Path) -> None:
    address = "https://cdn.example.com/search.js"
    assert check(tmp_path, f"<script src='{address}'></script>") == f"index.html: fetches {address}"
