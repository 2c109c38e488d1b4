"""What others have written, in every place that shows it, on every page that a link leads to."""

import re
from collections import Counter
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import sign_in
from tests.console.console_under_test import ConsoleUnderTest, eventually
from tests.console.payloads import PAYLOADS, pack

NAMES = pack(190)
DAY = "2026-01-31T12:00:00Z"
_MOST_PAGES_OF_A_KIND = 1
_ID = re.compile(r"[0-9a-f]{24}|hostile-\d+|[^/]*%3A[^/]*")
HARM = """() => {
  const found = [], leading = ['href', 'src', 'action', 'formaction', 'data', 'xlink:href'];
  for (const element of document.querySelectorAll('*')) {
    for (const { name, value } of element.attributes) {
      const leads = leading.includes(name) && /^\\s*(javascript|data:text|\\/\\/)/i.test(value);
      if (leads || name.startsWith('on')) found.push(element.outerHTML);
    }
  }
  const foreign = 'img, image, iframe, object, embed, base, video, math, style, script:not([src]), b, main link';
  for (const element of document.querySelectorAll(foreign)) found.push(element.outerHTML);
  if (window.hacked !== undefined || document.querySelectorAll('body').length !== 1) found.push('a script has run');
  return found;
}"""
"""Returns what a page of the console never has, in JavaScript."""


def fill(console: ConsoleUnderTest) -> str:
    """Put all payloads into names, texts, tags, metadata, instructions, schemas and tools; return the KB with them."""
    console.call("POST", "/tags", {"tag_id": "hostile", "name": NAMES[0]})
    body = {"name": NAMES[1], "description": pack(2_000)[0], "tag_ids": ["hostile"]}
    kb_id = str(console.call("POST", "/knowledge-bases", body)["kb_id"])
    text = "\n\n".join(f"# {payload}\n\n{payload} needle" for payload in PAYLOADS)
    for number, name in enumerate(NAMES):
        document = {
            "document_name": name,
            "tag_ids": ["hostile"],
            "upload_date": DAY,
            "text": f"{text}\n\n{name}",
            "metadata": {"note": name},
        }
        console.call("PUT", f"/documents/hostile-{number}", document)
        made = {"name": name, "instructions": "\n".join(PAYLOADS)}
        agent = console.call("POST", "/agents", made)
        tool = {"kb_id": kb_id, "tool_description": pack(1_000)[number % 2]}
        console.call("POST", f"/agents/{agent['agent_id']}/knowledge-base-tools", tool)
        schema = {"type": "object", "title": name}
        console.call(
            "POST", "/prompts", {"name": name, "content": "\n".join(PAYLOADS), "schema": schema, "kb_ids": [kb_id]}
        )
    eventually(lambda: console.call("GET", f"/knowledge-bases/{kb_id}/documents")["total_count"] == len(NAMES))
    return kb_id


@pytest.mark.long
def test_what_others_have_written_does_nothing_on_any_page(page: Page, console: ConsoleUnderTest) -> None:
    kb_id = fill(console)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    sign_in(page, console)
    page.goto(console.of_organization(f"/chat?kb={kb_id}"))
    page.get_by_label("Question").fill("needle " + " ".join(PAYLOADS))
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".turn .strip .chip").first).to_be_visible()
    assert page.evaluate(HARM) == [], "an answer while it is written"
    page.locator(".turn .strip .chip").first.click()
    expect(page.locator("#passage .cited")).to_contain_text("hacked")
    assert page.evaluate(HARM) == [], "a passage beside an answer"
    kb = f"/knowledge-bases/{kb_id}"
    seeds = [
        "/knowledge-bases",
        "/chat",
        "/agents",
        "/prompts",
        f"{kb}/search?q=needle",
        f"{kb}/search?q=%3Cimg+src%3Dx+onerror%3Dwindow.hacked%3D1%3E",
        f"{kb}/documents?q=%22%3E%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E",
        urlsplit(page.url).path.removeprefix("/console/orgs/local"),
    ]
    visited = crawl(page, [console.of_organization(seed) for seed in seeds], base_url=console.base_url)
    assert sum(visited.values()) > len(seeds)
    assert [url for url in requested if "hacked" in urlsplit(url).path or "hacked" in urlsplit(url).netloc] == []
    console.call("DELETE", f"/knowledge-bases/{kb_id}")


def crawl(page: Page, seeds: list[str], *, base_url: str) -> Counter[str]:
    """Follow all links, to one page of each kind, and return how many of each were visited."""
    visited: Counter[str] = Counter()
    left, known = list(seeds), set(seeds)
    while left:
        address = left.pop(0)
        kind = _ID.sub("*", urlsplit(address).path)
        if visited[kind] >= _MOST_PAGES_OF_A_KIND and address not in seeds:
            continue
        visited[kind] += 1
        answer = page.goto(address)
        assert answer is not None
        assert answer.status < 400, address
        assert page.evaluate(HARM) == [], address
        for link in page.evaluate("[...document.querySelectorAll('a[href]')].map((link) => link.href)"):
            found = link.partition("#")[0]
            is_page = found.startswith(f"{base_url}/console/") and not urlsplit(found).path.endswith(".csv")
            if is_page and found not in known:
                known.add(found)
                left.append(found)
    return visited
