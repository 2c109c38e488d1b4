"""Every page that can be reached from the first one is there, is fast, and leads nowhere that is not."""

import json

import pytest

from tests.console.console_under_test import ConsoleUnderTest, eventually
from tests.console.crawler import ConsoleCrawler, SignedInReader

pytestmark = pytest.mark.long

FEWEST = 200
"""Addresses: fewer would mean that the crawler does not find its way."""
SHOWN = 10


def _make_operators_data(console: ConsoleUnderTest, kb_id: str) -> None:
    """Make what only operators see: a check, a webhook with a delivery, a budget, and more rows than a page has."""
    console.call("POST", f"/knowledge-bases/{kb_id}/search", {"query": "nothing has this"})
    console.call("POST", f"/knowledge-bases/{kb_id}/reconcile?dry_run=true")
    webhook = console.call("POST", "/webhooks", {"url": "https://hooks.example.com/kb", "description": "Pager"})
    console.call("POST", f"/webhooks/{webhook['webhook_id']}/test")
    console.call("PUT", "/budget", {"soft": 1_000_000, "hard": None})
    pieces = [{"piece_id": f"note-{number}", "content": f"Note {number} about a pump."} for number in range(45)]
    console.call("POST", "/knowledge:import", {"pieces": [{**each, "knowledge_type": "fact"} for each in pieces]})
    for number in range(45):
        document = {"document_name": f"spare-{number}.md", "tag_ids": ["spares"], "upload_date": "2026-01-31T12:00:00Z"}
        console.call("PUT", f"/documents/spare-{number}", {**document, "text": f"Spare part {number}."})
    eventually(lambda: console.call("GET", "/knowledge-entries")["totals"]["by_status"]["pending"] == 0)


@pytest.mark.parametrize("scopes", [["admin"], ["read"]], ids=lambda scopes: scopes[0])
def test_no_link_is_dead_and_no_page_is_slow(
    console: ConsoleUnderTest,
    examples: dict[str, str],
    failing: str,
    scopes: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    _make_operators_data(console, failing)
    key = console.call("POST", "/api-keys", {"name": f"crawler {scopes[0]}", "scopes": scopes})["api_key"]
    crawl = ConsoleCrawler(SignedInReader(console.base_url, api_key=key)).run("/console/")
    with capsys.disabled():
        print(f"\n{len(crawl.seconds)} addresses, {crawl.left_out} like others left out; the slowest:")  # noqa: T201  # for who runs it
        print(*crawl.slowest(SHOWN), sep="\n")  # noqa: T201  # for who runs it
    assert not crawl.findings, "\n".join(crawl.findings)
    assert len(crawl.seconds) > FEWEST
    assert not crawl.refused or "admin" not in scopes
    assert [link for link in crawl.elsewhere if not link.startswith(examples["site"])] == [], json.dumps(examples)


def test_a_key_that_only_reads_changes_nothing(console: ConsoleUnderTest, failing: str) -> None:
    made = console.call("POST", "/api-keys", {"name": "reads only", "scopes": ["read"]})
    reader = SignedInReader(console.base_url, api_key=made["api_key"])
    kb = f"/console/orgs/local/knowledge-bases/{failing}"
    sent = {
        f"{kb}/pause": {},
        f"{kb}/delete": {"name": "Night shift"},
        f"{kb}/documents/night/retry": {},
        "/console/orgs/local/settings/tags": {"tag_id": "sneaked", "name": "Sneaked"},
        "/console/orgs/local/knowledge/new": {"title": "Sneaked", "content": "Sneaked in."},
        "/console/orgs/local/usage/budget": {"hard": "1", "confirmed": "yes"},
        f"/console/orgs/local/settings/keys/{made['key_id']}/revoke": {},
    }
    for path, fields in sent.items():
        refused = reader.post(path, fields)
        assert (refused.status, "scope" in refused.text) == (403, True), path
    assert console.call("GET", f"/knowledge-bases/{failing}")["paused_at"] is None
    assert console.call("GET", "/tags?name_search=sneaked")["total_count"] == 0
    assert console.call("GET", "/budget")["hard"] != 1
