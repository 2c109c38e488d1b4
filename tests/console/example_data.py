"""Example data of an organization, so that every page has something to show."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final
from urllib.parse import quote

from tests.console.console_under_test import ConsoleUnderTest, eventually, send_json

_DOCUMENTS: Final = {
    "espresso-manual": "# Espresso manual\n\n## Descaling\n\nDescale the pump every three months with citric acid. "
    "Switch it off first.\n\n## Error E41\n\nE41 says that the pressure sensor does not answer. Check its plug.",
    "grinder-manual": "# Grinder manual\n\n## Burrs\n\nReplace the burrs after 500 kg of beans. There is no pump.",
    "cleaning-plan": "# Cleaning plan\n\nEvery evening: rinse the group, wipe the steam wand, empty the drip tray.",
}
_KNOWLEDGE: Final = {
    "metadata": {
        "user:alice": {"entity_type": "user", "properties": {"team": "service", "language": "de"}},
        "machine:e61": {"entity_type": "machine", "properties": {"bar": 9}},
    },
    "pieces": [
        {
            "piece_id": "descale-hard-water",
            "title": "How often to descale with hard water",
            "content": "With hard water, descale the pump every six weeks, not every three months.",
            "knowledge_type": "procedure",
            "info_type": "instructions",
            "tags": ["manuals"],
        },
        {"piece_id": "alice-knows-e61", "content": "Alice repairs all E61 groups.", "knowledge_type": "fact",
         "entity_id": "user:alice"},
    ],
    "graph": {
        "nodes": [
            {"node_id": "user:alice", "node_type": "user", "label": "Service engineer"},
            {"node_id": "machine:e61", "node_type": "machine", "label": "Brew group"},
            {"node_id": "part:pump", "node_type": "part"},
            {"node_id": "part:sensor", "node_type": "part", "label": "Pressure sensor"},
        ],
        "edges": [
            {"source_id": "user:alice", "edge_type": "REPAIRS", "target_id": "machine:e61"},
            {"source_id": "machine:e61", "edge_type": "HAS", "target_id": "part:pump"},
            {"source_id": "machine:e61", "edge_type": "HAS", "target_id": "part:sensor"},
        ],
    },
}  # fmt: skip
_NOTES: Final = "Alice repairs all E61 groups. With hard water, descale the pump every six weeks."
_PROPOSAL: Final = {
    "metadata": {"user:alice": {"entity_type": "user", "properties": {"specialization": "E61 groups"}}},
    "pieces": [{"content": "With hard water, descale the pump every six weeks.", "knowledge_type": "procedure"}],
    "graph": {"edges": [{"source_id": "user:alice", "edge_type": "REPAIRS", "target_id": "machine:e61"}]},
}
_SITE: Final = {
    "/": "<h1>Service hours</h1><p>The service answers calls from eight to five.</p><a href='/spares'>Spares</a>",
    "/spares": "<h1>Spare parts</h1><p>A pressure sensor costs 38 euros and is on stock in Lisbon.</p>",
}


def make_examples(console: ConsoleUnderTest, *, site: str) -> dict[str, str]:
    """Make the data and return the ids that the table of pages names; what is there already is used again.

    Args:
        console: where to make them.
        site: address of a web site that a source reads.
    """
    console.call("POST", "/tags", {"tag_id": "manuals", "name": "Manuals"})
    found = console.call("GET", "/knowledge-bases?name_search=Manuals")["knowledge_bases"]
    about = {
        "name": "Manuals",
        "description": "Manuals of our machines.",
        "tag_ids": ["manuals"],
        "filterable_metadata": ["year"],
    }
    kb_id = found[0]["kb_id"] if found else console.call("POST", "/knowledge-bases", about)["kb_id"]
    for document_id, text in _DOCUMENTS.items():
        body = {"document_name": f"{document_id}.md", "tag_ids": ["manuals"], "upload_date": "2026-01-31T12:00:00Z"}
        console.call("PUT", f"/documents/{document_id}", {**body, "text": text, "metadata": {"year": 2026}})
    prices = {"document_name": "supplier-prices.md", "tag_ids": ["purchasing"], "upload_date": "2026-01-31T12:00:00Z"}
    console.call("PUT", "/documents/supplier-prices", {**prices, "text": "# Prices\n\nA group gasket costs 4 euros."})
    console.call("POST", "/knowledge:import", _KNOWLEDGE)
    source = {
        "label": "Service pages",
        "kind": "url_crawl",
        "config": {"url": site},
        "cron_expression": "0 6 * * MON-FRI",
    }
    source_id = console.call("POST", "/knowledge-sources", source)["source_id"]
    console.call("POST", f"/knowledge-sources/{source_id}/run")
    wiki = {"label": "Wiki", "url": "https://wiki.example.com/mcp", "headers": {"Authorization": "Bearer secret"}}
    server_id = console.call("POST", "/mcp-servers", wiki)["mcp_server_id"]
    eventually(lambda: console.call("GET", f"/knowledge-bases/{kb_id}/documents")["total_count"] >= len(_DOCUMENTS) + 1)
    return {
        "kb_id": kb_id,
        "document_id": "espresso-manual",
        "entry_id": "descale-hard-water",
        "source_id": source_id,
        "mcp_server_id": server_id,
        "check_in_id": _propose(console),
        "site": site,
        **_make_conversation(console, kb_id),
    }


def _propose(console: ConsoleUnderTest) -> str:
    """Let a scripted model make a proposal of notes."""
    script = {"model": "scripted-proposal", "turns": [{"text": json.dumps(_PROPOSAL)}]}
    send_json("PUT", console.models_url.removesuffix("/v1") + "/admin/chat", script, headers={})
    proposed = console.call("POST", "/knowledge:structure", {"text": _NOTES, "model": script["model"]})
    return str(proposed["check_in_id"])


def _make_conversation(console: ConsoleUnderTest, kb_id: str) -> dict[str, str]:
    """Make an agent with a tool, a prompt, and a question with a cited answer."""
    about = {"name": "Service", "instructions": "Search before you answer. Answer in two sentences."}
    agent_id = console.call("POST", "/agents", about)["agent_id"]
    agent = console.call("POST", f"/agents/{agent_id}/knowledge-base-tools", {"kb_id": kb_id})
    schema = {"type": "object", "properties": {"months": {"type": "integer"}}}
    prompt = {"name": "Intervals", "content": "Say how often it is done.", "kb_ids": [kb_id], "schema": schema}
    prompt_id = console.call("POST", "/prompts", prompt)["prompt_id"]
    question = "How often is the pump descaled with citric acid?"
    thread_id = console.call("POST", "/threads", {"title": question})["thread_id"]
    messages = [{"role": "user", "content": question}]
    run = console.call("POST", "/runs", {"messages": messages, "kb_ids": [kb_id], "thread_id": thread_id})
    chunks = console.call("GET", f"/knowledge-bases/{kb_id}/chunks?document_id=espresso-manual")["chunks"]
    return {
        "agent_id": agent_id,
        "tool_id": agent["tools"][0]["tool_id"],
        "prompt_id": prompt_id,
        "thread_id": thread_id,
        "run_id": run["run_id"],
        "chunk_id": quote(chunks[0]["chunk_id"], safe=""),
    }


@contextmanager
def serve_site() -> Iterator[str]:
    """Serve a small web site and yield its address."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # its name in the library
            page = _SITE.get(self.path)
            body = f"<html><head><title>Service</title></head><body><main>{page or 'nothing'}</main></body></html>"
            self.send_response(200 if page else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in the library
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
