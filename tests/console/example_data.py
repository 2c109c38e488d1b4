"""Example data of an organization, so that every page has something to show."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

from tests.console.conftest import ConsoleUnderTest, eventually

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
