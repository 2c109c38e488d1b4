"""Takes a picture of every page, in light and in dark, into `docs/images`: `make screenshots`.

It is no test, and not collected as one; it uses their browser and their stack.
"""

import base64
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.console.conftest import ROOT, sign_in
from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest, eventually
from tests.console.page_table import OPERATOR_PAGES, PAGES

FOLDER: Final = ROOT / "docs" / "images"
MOST_BYTES: Final = 80_000
_SIZE: Final = {"width": 1280, "height": 800}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_take_pictures(browser: Browser, console: ConsoleUnderTest, examples: dict[str, str], scheme: str) -> None:
    source = f"/knowledge-sources/{examples['source_id']}"
    eventually(lambda: console.call("GET", source)["last_run_status"] == "ok")
    eventually(lambda: console.call("GET", "/knowledge-entries")["totals"]["by_status"]["pending"] == 0)
    context = browser.new_context(color_scheme=scheme, viewport=_SIZE, reduced_motion="reduce", locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    sign_in(page, console)
    # Playwright itself takes no WebP, which needs a third of the bytes of PNG.
    session = context.new_cdp_session(page)
    FOLDER.mkdir(exist_ok=True)
    for listed in (*PAGES, *OPERATOR_PAGES):
        page.goto(console.of_organization(listed.path.format_map(examples)))
        expect(page.locator("main h1").first).to_be_visible()
        taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": 60})
        picture = base64.b64decode(taken["data"])
        assert len(picture) < MOST_BYTES, listed.name
        Path(FOLDER / f"{listed.name}-{scheme}.webp").write_bytes(picture)
    context.close()
