"""Spans of the requests to a provider that are repeated."""

from typing import Any

from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.purchases import Purpose
from tests.integration.embedding.conftest import FaultyProvider
from tests.span_receiver import recording_spans

MODEL: dict[str, Any] = {"model": "hash-16", "dimensions": 16}


async def test_each_repetition_of_a_request_is_a_span_with_its_status(
    embedder: Embedder, provider: FaultyProvider, indexing: Purpose
) -> None:
    await provider.program_faults({"status": 500, "times": 1})
    with recording_spans() as ended:
        await embedder.embed(["a text"], **MODEL, purpose=indexing)
    requests = [span for span in ended if span.name.startswith("embeddings ")]
    assert [(span.attributes["kb.status_class"], span.has_failed) for span in requests] == [
        ("5xx", True),
        ("2xx", False),
    ]
    [call] = [span for span in ended if span.name == "call provider"]
    assert {span.parent_id for span in requests} == {call.span_id}
    assert (call.attributes["kb.attempts"], call.has_failed) == (2, False)
    assert all("a text" not in str(span.attributes) for span in ended)
