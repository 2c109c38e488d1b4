"""`python -m benchmarks.span_cost`: the CPU that a search takes more when its spans are exported.

Two search services answer the same questions by turns, one with a collector and one without, so that both have the same
machine. The collector is a server in this process that reads what it gets and keeps nothing. `span_us` is one span with
an attribute, made and ended in this process, without its export.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import mean
from threading import Thread
from time import process_time
from typing import Any, Final

import httpx
import psutil

from benchmarks import command
from benchmarks.indexed_corpus import CorpusDocument, client_of, indexed
from benchmarks.indexing import corpus
from kb_local.service import Service
from kb_shared.observability import spans, tracing
from kb_shared.observability.span_recording import ExportQueue, SampledRecorder
from kb_shared.observability.span_settings import SpanSettings

_SPANS: Final = 20_000
_ROUND: Final = 200
"""Searches of each service in one round."""


def main() -> None:
    parser = command.parser("span_cost", __doc__)
    parser.add_argument("--rounds", type=int, default=10, help=f"of {_ROUND} searches with each service")
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    texts = list(corpus.texts(documents=20, words=1_000))
    documents = [CorpusDocument(f"doc-{number}", "", text) for number, text in enumerate(texts)]
    with _collector() as endpoint:
        async with indexed(folder, documents, ["hybrid"], embedding_model="hash-384", chunk_size=200) as kb:
            without = kb.stack.services["kb_search"]
            exporting = await kb.stack.start_service("kb_search:2", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
            figures: dict[str, list[float]] = {"without": [], "exporting": []}
            for _ in range(options.rounds + 1):
                for name, service in (("without", without), ("exporting", exporting)):
                    async with client_of(kb.stack, service.url) as http:
                        figures[name].append(await _cpu_ms_of_search(service, http, kb.kb_id, texts))
        # The first round fills caches.
        off, on = mean(figures["without"][1:]), mean(figures["exporting"][1:])
        return {
            "search_cpu_ms": {"without": round(off, 3), "exporting": round(on, 3), "ratio": round(on / off, 3)},
            "span_us": _cpu_us_of_span(),
        }


async def _cpu_ms_of_search(service: Service, http: httpx.AsyncClient, kb_id: str, texts: list[str]) -> float:
    process = psutil.Process(service.pid)
    before = process.cpu_times()
    for number in range(_ROUND):
        query = " ".join(texts[number % len(texts)].split()[:5])
        answer = await http.post(f"/knowledge-bases/{kb_id}/search", json={"query": query, "mode": "hybrid"})
        answer.raise_for_status()
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) * 1_000 / _ROUND


def _cpu_us_of_span() -> dict[str, float]:
    figures = {"without": _time_spans()}
    settings = SpanSettings(max_queued=2 * _SPANS, max_batch=2 * _SPANS, delay_s=3_600.0)
    queue = ExportQueue(lambda _: True, settings)
    tracing.record_with(SampledRecorder(queue.add, settings.sampler))
    try:
        figures["exporting"] = _time_spans()
    finally:
        tracing.record_with(None)
        queue.close(stop_sending=lambda: None)
    return figures


def _time_spans() -> float:
    with tracing.trace(spans.HTTP_REQUEST):
        began = process_time()
        for _ in range(_SPANS):
            with tracing.span(spans.SEARCH_STAGE, {"kb.texts": 1}, of="read"):
                pass
        return round((process_time() - began) * 1e6 / _SPANS, 2)


@contextmanager
def _collector() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()
