import asyncio
from typing import Any

from kb_shared.embedding.batch_queue import BatchQueue, PendingText
from kb_shared.embedding.models import EmbeddingModel
from kb_shared.embedding.pace import Pace
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.vector_buyer import VectorBuyer
from kb_shared.errors import TransientError
from kb_shared.observability import spans, tracing
from tests.span_receiver import recording_spans

MODEL = EmbeddingModel("m", "m", "openai", "openai/m", None, "a secret key", None, None, "fingerprint")
PURPOSE = Purpose("acme", None, "index", "document")


class UnreachableProvider:
    async def embed(self, *_: Any) -> Any:
        with tracing.span(spans.CALL_PROVIDER):
            raise TransientError("away")


async def do_not_buy(_: Any) -> None:
    raise AssertionError


async def test_a_batch_for_two_documents_is_in_the_trace_of_the_first_and_linked_to_the_other() -> None:
    queue = BatchQueue(do_not_buy, pace=Pace(deadline_s=60), patience_s=3_600)
    buyer: Any = VectorBuyer
    batch: list[PendingText] = []

    def add_texts(*texts: str) -> None:
        with tracing.trace(spans.EMBED):
            batch.extend(queue.add_text(text, text, PURPOSE, nano_usd=0)[0] for text in texts)

    with recording_spans() as ended:
        add_texts("a", "b")
        add_texts("c")
        with tracing.trace(spans.EMBED):
            # Another document sends what waits.
            await buyer(None, UnreachableProvider())._deliver(batch, MODEL, None)
    first, other, call, bought, _ = ended
    assert (bought.name, bought.trace_id, bought.parent_id) == ("embed batch", first.trace_id, first.span_id)
    assert [link.span_id for link in bought.links] == [other.span_id]
    assert bought.attributes == {"gen_ai.request.model": "m", "kb.texts": 3, "error.type": "TransientError"}
    assert (call.name, call.parent_id) == ("call provider", bought.span_id)
    assert await _all_failed(batch)


async def _all_failed(batch: list[PendingText]) -> bool:
    await asyncio.wait([pending.delivery for pending in batch])
    return all(isinstance(pending.delivery.exception(), TransientError) for pending in batch)
