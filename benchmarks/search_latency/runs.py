"""Time that the loop of a run adds to the time of its model and its searches, as the service counts them."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.indexed_corpus import CorpusKnowledgeBase
from benchmarks.search_latency.searchers import SearchQuestion

_RUNS = "kb_run_seconds_sum"
_MODELS = "kb_chat_request_seconds_sum"
_SEARCHES = "kb_search_seconds_sum"


@dataclass(frozen=True, slots=True)
class Iterations:
    """Milliseconds of a run, on average."""

    iterations: float
    over_http_ms: float
    """With what comes before the loop and after it: key, limits, the row of the run."""
    run_ms: float
    models_ms: float
    """Between the loop and the model: LiteLLM and the demo model, which takes a millisecond."""
    searches_ms: float
    an_iteration_adds_ms: float


async def iterations(
    kb: CorpusKnowledgeBase, http: aiohttp.ClientSession, questions: Sequence[SearchQuestion]
) -> Iterations:
    """Ask each question in a run with the demo model, which searches once and answers: one after the other."""
    service = kb.stack.services["kb_search"].url
    url = f"{service}/v0/orgs/{kb.stack.organization_id}/runs"
    await _run(http, url, kb, questions[0])  # what the first call loads
    before = await _seconds(http, service)
    began, count = perf_counter(), 0
    for question in questions:
        count += await _run(http, url, kb, question)
    over_http_s = perf_counter() - began
    after = await _seconds(http, service)
    ms = {name: (after[name] - before[name]) * 1000 / len(questions) for name in (_RUNS, _MODELS, _SEARCHES)}
    each = count / len(questions)
    return Iterations(
        iterations=each,
        over_http_ms=round(over_http_s * 1000 / len(questions), 2),
        run_ms=round(ms[_RUNS], 2),
        models_ms=round(ms[_MODELS], 2),
        searches_ms=round(ms[_SEARCHES], 2),
        an_iteration_adds_ms=round((ms[_RUNS] - ms[_MODELS] - ms[_SEARCHES]) / each, 2),
    )


async def _run(http: aiohttp.ClientSession, url: str, kb: CorpusKnowledgeBase, question: SearchQuestion) -> int:
    body = {"messages": [{"role": "user", "content": question.text}], "kb_id": kb.kb_id}
    async with http.post(url, json=body) as answer:
        answer.raise_for_status()
        run = await answer.json()
    assert run["status"] == "completed", "the demo model answers everything"
    return int(run["iterations"])


async def _seconds(http: aiohttp.ClientSession, service: str) -> dict[str, float]:
    """Sums of the service's histograms; of searches the whole ones, not their stages."""
    async with http.get(f"{service}/metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
    samples = [sample for family in families for sample in family.samples]
    return {
        name: sum(one.value for one in samples if one.name == name and one.labels.get("stage", "total") == "total")
        for name in (_RUNS, _MODELS, _SEARCHES)
    }
