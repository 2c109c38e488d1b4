"""The spans that the services export, as a collector gets them: their trees, their ids in logs, and what is in none."""

import json
import re
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from kb_contracts import topics
from kb_shared.observability import spans
from kb_shared.observability.spans import SpanType
from tests.chaos.workload import paragraph
from tests.e2e.running_system import RunningSystem
from tests.span_receiver import ReceivedSpan, SpanReceiver, Trace
from tests.waiting import until

UPSTREAM: Final = "b7ad6b7169203331"
CATALOGUE: Final = [value for value in vars(spans).values() if isinstance(value, SpanType)]
METHOD_AND_ROUTE: Final = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /")


class Traced:
    """A way to begin traces in a system, and to wait for their spans."""

    def __init__(self, running: RunningSystem, receiver: SpanReceiver) -> None:
        self._running = running
        self._receiver = receiver
        self.trace_id = uuid4().hex
        self.traceparent = f"00-{self.trace_id}-{UPSTREAM}-01"

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._running.system.http.post(path, json=body, headers={"traceparent": self.traceparent})
        assert answer.status_code < 300, answer.text
        content: dict[str, Any] = answer.json()
        return content

    async def until_received(self, *names: str) -> Trace:
        """Return the trace once it has spans with all these names."""

        def trace() -> Trace:
            return self._receiver.of_trace(self.trace_id)

        def missing() -> set[str]:
            received = trace()
            return {name for name in names if not received.all(name)}

        await until(lambda: not missing(), what=f"the spans {names}", progress=lambda: frozenset(missing()))
        return trace()


async def test_one_trace_leads_from_the_event_of_the_upstream_to_the_searchable_chunks_and_their_announcement(
    running: RunningSystem, span_receiver: SpanReceiver
) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    event = running.upstream.ocr(f"spans-{tag}", [paragraph(f"{tag} {n}") for n in range(3)], tags=[tag])
    running.oracle.record_published(event)
    traced = Traced(running, span_receiver)
    await running.system.events.publish(event, traceparent=traced.traceparent)
    prefix = running.system.stack.topic_prefix
    events, requests, outcomes = (
        prefix + topic.name for topic in (topics.DOCUMENT_EVENTS, topics.INDEX_REQUESTS, topics.KB_EVENTS)
    )
    trace = await traced.until_received(f"process {requests}", f"send {outcomes}", "store vectors")

    fan_out = trace.one(f"process {events}")
    assert (fan_out.parent_id, fan_out.kind) == (UPSTREAM, "consumer")
    assert fan_out.attributes["kb.document_id"] == event.document_id
    assert (fan_out.attributes["kb.outcome"], fan_out.is_error) == ("handled", False)
    command = trace.one(f"process {requests}")
    assert command.attributes["kb.kb_id"] == kb_id
    handled = [f"process {events}", "request jobs", f"send {requests}", f"process {requests}"]
    assert trace.path(command) == handled
    assert trace.path(trace.one("fan-out project")) == [f"process {events}", "fan-out project"]
    assert trace.path(trace.one("index chunk")) == [*handled, "index chunk"]
    asked = trace.one("embeddings ")
    assert trace.path(asked) == [*handled, "index embed", "embed batch", "call provider", asked.name]
    assert (asked.kind, asked.attributes["kb.status_class"], asked.attributes["kb.texts"]) == ("client", "2xx", 3)
    assert trace.path(trace.one("store vectors"))[:-1] == [*handled, "index embed", "embed batch"]
    swap = trace.one("index swap")
    assert trace.path(swap) == [*handled, "index swap"]
    assert swap.attributes["kb.chunks.inserted"] == 3

    def sent() -> list[ReceivedSpan]:
        sends = span_receiver.of_trace(traced.trace_id).all(f"send {outcomes}")
        return [span for span in sends if span.parent_id == swap.span_id]

    # The outbox is sent by whichever service has the lease.
    await until(lambda: bool(sent()))
    [indexed] = sent()
    assert (indexed.kind, indexed.service in {"kb-api", "kb-indexer", "kb-knowledge"}) == ("producer", True)
    # The knowledge service hears of all outcomes, and leaves out those of other documents.
    ended = f"process {outcomes}"
    services = {span.service for span in trace.spans if not span.name.startswith("send ") and span.name != ended}
    assert services == {"kb-indexer"}
    assert {trace.root_parent(span) for span in trace.spans} == {UPSTREAM}

    # The announcement names the span that sent it, for the spans of its readers.
    announced = await running.system.kafka.read(topics.KB_EVENTS)
    assert f"00-{traced.trace_id}-{indexed.span_id}-01" in {each.headers["traceparent"] for each in announced}


async def test_a_search_has_a_span_for_each_of_its_stages(running: RunningSystem, span_receiver: SpanReceiver) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    traced = Traced(running, span_receiver)
    await traced.post(f"/knowledge-bases/{kb_id}/search", {"query": f"words {tag}"})
    trace = await traced.until_received("POST ")
    request = trace.one("POST ")
    assert request.name == "POST /v0/orgs/{organization_id}/knowledge-bases/{kb_id}/search"
    assert (request.kind, request.parent_id, request.service) == ("server", UPSTREAM, "kb-search")
    assert request.attributes["http.response.status_code"] == 200
    search = trace.one("search")
    assert (search.parent_id, search.attributes["kb.kb_ids"]) == (request.span_id, [kb_id])
    stages = {span.name: span.parent_id for span in trace.all("search ")}
    assert stages == dict.fromkeys(("search embed", "search vector", "search text", "search read"), search.span_id)
    asked = trace.path(trace.one("embeddings "))
    assert asked[1:-1] == ["search", "search embed", "embed batch", "call provider"]


async def test_a_run_has_spans_for_its_turns_the_requests_to_the_model_and_the_calls_of_tools(
    running: RunningSystem, span_receiver: SpanReceiver
) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    await running.publish(running.upstream.ocr(f"run-{tag}", [paragraph(tag)], tags=[tag]))
    await running.system.until_found(kb_id, [f"run-{tag}"])
    http = running.system.http
    agent_id = (await http.post("/agents", json={"name": tag})).json()["agent_id"]
    (await http.post(f"/agents/{agent_id}/knowledge-base-tools", json={"kb_id": kb_id})).raise_for_status()
    traced = Traced(running, span_receiver)
    run = await traced.post("/runs", {"messages": [{"role": "user", "content": paragraph(tag)}], "agent_id": agent_id})
    trace = await traced.until_received("POST ")
    whole = trace.one("run")
    assert trace.path(whole)[1:] == ["run"]
    assert (whole.attributes["kb.run_id"], whole.attributes["kb.status"]) == (run["run_id"], "completed")
    turns, asked = trace.all("run turn"), trace.all("chat ")
    assert len(turns) == len(asked) == run["iterations"] == whole.attributes["kb.iterations"]
    assert {span.parent_id for span in turns} == {whole.span_id}
    assert {tuple(trace.path(span)[1:-1]) for span in asked} == {("run", "run turn", "call provider")}
    tokens = [span.attributes["gen_ai.usage.input_tokens"] for span in asked]
    assert sum(tokens) == run["prompt_tokens"]
    tool = trace.one("execute_tool")
    assert tool.parent_id == whole.span_id
    assert trace.one("search").parent_id == tool.span_id


async def test_a_call_of_an_mcp_tool_is_in_the_trace_of_its_request(
    running: RunningSystem, span_receiver: SpanReceiver
) -> None:
    traced = Traced(running, span_receiver)
    stack = running.system.stack
    answer = await running.system.http.post(
        f"{stack.base_url}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_knowledge_bases"}},
        headers={"traceparent": traced.traceparent, "accept": "application/json, text/event-stream"},
    )
    assert answer.json()["result"]["isError"] is False, answer.text
    trace = await traced.until_received("POST /mcp")
    call = trace.one("tools/call list_knowledge_bases")
    assert trace.path(call) == ["POST /mcp", "tools/call list_knowledge_bases"]


async def test_log_lines_have_the_ids_of_the_spans_they_were_written_in(
    running: RunningSystem, span_receiver: SpanReceiver
) -> None:
    (tag,) = await running.create_tags(1)
    await running.create_knowledge_base(tag)
    event = running.upstream.ocr(f"logged-{tag}", [paragraph(tag)], tags=[tag])
    running.oracle.record_published(event)
    traced = Traced(running, span_receiver)
    await running.system.events.publish(event, traceparent=traced.traceparent)
    trace = await traced.until_received("index swap", "process ")

    def lines() -> list[dict[str, Any]]:
        logs: list[Path] = [service.log for service in running.system.stack.services.values()]
        return [json.loads(line) for log in logs for line in log.read_text().splitlines() if traced.trace_id in line]

    await until(lambda: {"event.fanned_out", "document.indexed"} <= {line["event"] for line in lines()})
    by_id = {span.span_id: span for span in trace.spans}
    names = {line["event"]: by_id[line["span_id"]].name.split(" ")[0] for line in lines() if line["span_id"] in by_id}
    assert names["event.fanned_out"] == names["document.indexed"] == "process"


async def test_spans_contain_what_the_catalogue_says_and_no_text_query_key_or_message(
    running: RunningSystem, span_receiver: SpanReceiver
) -> None:
    canary = f"canary{uuid4().hex}"
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    traced = Traced(running, span_receiver)
    await running.publish(running.upstream.ocr(f"secret-{tag}", [paragraph(canary)], tags=[tag]))
    await running.system.until_found(kb_id, [f"secret-{tag}"])
    await traced.post(f"/knowledge-bases/{kb_id}/search", {"query": canary})
    # Callers choose these names: they are in no attribute unless they exist.
    await running.system.http.post(f"/knowledge-bases/{canary}/search", json={"query": canary})
    await running.system.http.get(f"/{canary}")
    stack = running.system.stack
    await running.system.http.post(
        f"{stack.base_url}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": canary}},
        headers={"accept": "application/json, text/event-stream"},
    )
    await running.send_malformed(canary.encode(), key=f"{stack.organization_id}/{tag}".encode())
    await traced.until_received("POST ")
    await until(lambda: any(span.attributes.get("kb.outcome") == "dead_lettered" for span in span_receiver.spans))

    received = span_receiver.spans
    assert len(received) > 20
    for secret in (canary, stack.api_key, paragraph(canary).split(" ")[0]):
        assert [body for body in span_receiver.requests if secret.encode() in body] == []
    assert [span for span in received if span.events or span.description] == []
    assert [span for span in received if unknown_attributes(span)] == []
    assert [span for span in received if span.name.endswith(("/healthz", "/readyz", "/metrics"))] == []


def unknown_attributes(span: ReceivedSpan) -> set[str]:
    """Return the attributes that the catalogue does not give to spans with this name; all if it has no such name."""
    entries = [
        each for each in CATALOGUE if span.name == each.name or (each.of and span.name.startswith(f"{each.name} "))
    ]
    if METHOD_AND_ROUTE.match(span.name) or span.kind == "server":
        entries = [spans.HTTP_REQUEST]
    known = {name for each in entries for name in each.attributes}
    if span.is_error or not span.attributes:
        known |= {"error.type"}
    assert entries, span
    assert {each.kind for each in entries} == {span.kind}, span
    return set(span.attributes) - known
