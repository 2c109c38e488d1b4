"""Defines every span of the system: name, kind, attributes, and what it measures.

Names and attributes follow the semantic conventions of OpenTelemetry where those have one; the others begin with `kb.`.
Attributes are ids, counts and closed sets of words. Never an attribute: texts, queries, vectors, keys, error messages.
"""

from dataclasses import dataclass
from typing import Final, Literal

SpanKind = Literal["internal", "server", "client", "producer", "consumer"]


@dataclass(frozen=True, slots=True)
class SpanType:
    """Spans of one kind of work."""

    name: str
    """First part of the name, or the whole name."""
    meaning: str
    """Explanation of what the span measures."""
    attributes: tuple[str, ...] = ()
    kind: SpanKind = "internal"
    of: str = ""
    """Placeholder for the word that completes the name; empty if the name is complete."""

    def build_name(self, of: str) -> str:
        return f"{self.name} {of}" if of else self.name

    @property
    def template(self) -> str:
        """Return the name with a placeholder for what completes it."""
        return f"{self.name} {{{self.of}}}".strip() if self.of else self.name


_DOCUMENT: Final = ("kb.organization_id", "kb.kb_id", "kb.document_id")
_MESSAGE: Final = (
    "messaging.system",
    "messaging.operation.name",
    "messaging.operation.type",
    "messaging.destination.name",
)
_MODEL: Final = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "kb.status_class")
_CALL: Final = "error.type"
"""Attribute of every failed span."""

HTTP_REQUEST: Final = SpanType(
    "HTTP",
    "An HTTP request, from its head to the end of the response; renamed to method and route template. /healthz, /readyz"
    " and /metrics have none.",
    (
        "http.request.method",
        "http.route",
        "http.response.status_code",
        "kb.request_id",
        *_DOCUMENT,
    ),
    kind="server",
)
SEND: Final = SpanType(
    "send",
    "Sending a message to Kafka, until all in-sync replicas have acknowledged it.",
    _MESSAGE,
    kind="producer",
    of="topic",
)
PROCESS: Final = SpanType(
    "process",
    "One attempt to handle a Kafka record. Its parent is the span that sent the record.",
    (
        *_MESSAGE,
        "messaging.destination.partition.id",
        "messaging.kafka.offset",
        "kb.outcome",
        "kb.tries",
        "kb.event.type",
        "kb.knowledge_bases",
        "kb.action",
        "kb.reason",
        *_DOCUMENT,
    ),
    kind="consumer",
    of="topic",
)
PROJECT: Final = SpanType(
    "fan-out project", "Storing the text and the new state of a document that an event describes.", ("kb.changed",)
)
SELECT_KBS: Final = SpanType("fan-out select", "Finding the KBs that an event concerns.", ("kb.knowledge_bases",))
REQUEST_JOBS: Final = SpanType(
    "request jobs", "Storing jobs and sending their commands.", ("kb.jobs", "kb.queued", "kb.bulk")
)
BACKFILL: Final = SpanType(
    "backfill stretch",
    "Requesting jobs for up to 100 documents of a KB that is scanned. The trace is that of the request for the scan.",
    ("kb.organization_id", "kb.kb_id", "kb.backfill.kind", "kb.backfill.phase", "kb.documents"),
)
CHUNK: Final = SpanType("index chunk", "Reading the text of a document and dividing it into chunks.", ("kb.chunks",))
EMBED: Final = SpanType(
    "index embed",
    "Getting the vectors of all chunks of a document, from the cache or a provider.",
    ("kb.chunks", "kb.cache_hits", "kb.embeddings"),
)
SWAP: Final = SpanType(
    "index swap",
    "Replacing the chunks of a document in one transaction, with the wait for other swaps of the same KB slot.",
    ("kb.swap.kind", "kb.chunks", "kb.chunks.inserted", "kb.chunks.retired"),
)
SEARCHABLE: Final = SpanType(
    "index searchable",
    "The wait after a swap until the vector index finds the new chunks; of some documents only.",
    ("kb.found",),
)
FIND_VECTORS: Final = SpanType(
    "embedding cache", "Looking up texts in the embedding cache.", ("kb.texts", "kb.cache_hits")
)
EMBED_BATCH: Final = SpanType(
    "embed batch",
    "Buying the vectors of one batch of texts. A batch that several documents share is in the trace of the first one"
    " and linked to the others.",
    ("gen_ai.request.model", "kb.texts"),
)
CALL_PROVIDER: Final = SpanType(
    "call provider",
    "A call to a provider with its retries, and the waits for rate limits and circuit breaker.",
    ("kb.attempts",),
)
EMBEDDINGS: Final = SpanType(
    "embeddings",
    "One request to a provider of embeddings.",
    (*_MODEL, "kb.texts", "gen_ai.embeddings.dimension.count"),
    kind="client",
    of="model",
)
STORE_VECTORS: Final = SpanType(
    "store vectors", "Storing vectors in the embedding cache and charging them.", ("kb.texts", "kb.embeddings")
)
CHAT: Final = SpanType(
    "chat",
    "One request to a chat model, until the end of its answer.",
    (*_MODEL, "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "kb.streamed"),
    kind="client",
    of="model",
)
SEARCH: Final = SpanType(
    "search",
    "A search over one KB or several, with its restarts.",
    ("kb.organization_id", "kb.kb_ids", "kb.search.mode", "kb.search.outcome", "kb.search.results", "kb.spus"),
)
SEARCH_STAGE: Final = SpanType(
    "search",
    "A stage of a search: embed (the vector of the query), vector and text (the legs, once for each KB), read (the"
    " hits in one snapshot).",
    of="stage",
)
MCP_CALL: Final = SpanType(
    "tools/call", "A call of an MCP tool.", ("mcp.method.name", "gen_ai.tool.name", "kb.organization_id"), of="tool"
)
RUN: Final = SpanType(
    "run",
    "A run, from its turn in the fair queue to its stored result.",
    (
        "gen_ai.operation.name",
        "gen_ai.request.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "kb.organization_id",
        "kb.run_id",
        "kb.status",
        "kb.iterations",
        "kb.spus",
    ),
)
RUN_TURN: Final = SpanType(
    "run turn",
    "One turn of a run: asking the model and checking its answer, without the calls of tools that follow.",
    ("kb.iteration", "kb.with_tools", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
)
TOOL_CALL: Final = SpanType(
    "execute_tool",
    "A call of a tool by a model.",
    ("gen_ai.operation.name", "gen_ai.tool.name", "kb.passages", "kb.from_memory", "kb.spus"),
)
DELETE_KB: Final = SpanType(
    "delete knowledge base",
    "Deleting the rows of a KB, the last step of its deletion.",
    ("kb.organization_id", "kb.kb_id"),
)
IMPORT_KB: Final = SpanType("import knowledge base", "Importing a KB from a file.", ("kb.organization_id",))
RECONCILE_PASS: Final = SpanType(
    "reconcile pass",
    "A pass of the reconciler over all KBs.",
    ("kb.pass", "kb.drift.found", "kb.drift.repaired", "kb.drift.stopped", "kb.skipped"),
)
RECONCILE_KB: Final = SpanType(
    "reconcile knowledge base",
    "Comparing and repairing one KB. In a pass it has a trace of its own, which is linked to that of the pass.",
    ("kb.organization_id", "kb.kb_id", "kb.drift.found", "kb.drift.repaired", "kb.drift.stopped"),
)
RECONCILE_PLAN: Final = SpanType(
    "reconcile plan", "Executing a plan, that is a reconciliation on request.", ("kb.organization_id", "kb.plan_id")
)
REPAIR: Final = SpanType(
    "repair",
    "Repairing documents with one kind of drift. Jobs that it requests continue its trace.",
    ("kb.kb_id", "kb.drift.kind", "kb.documents"),
    of="drift",
)
