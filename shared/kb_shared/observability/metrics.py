"""Every metric of the system, once. Help texts say the unit and what to do when the figure is high.

Labels are closed sets, but for `kb_id`, which is dropped with its KB (`forget_knowledge_base`). Never a label:
document ids, queries, hashes, error texts, model names as a request gave them.
"""

from collections.abc import Iterable
from importlib.metadata import version

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric


class MeasuredGauge(Gauge):
    """A gauge without labels that is exported from its first value on, so only by the service that measures it."""

    _is_measured = False

    def set(self, value: float) -> None:
        self._is_measured = True
        super().set(value)

    def collect(self) -> Iterable[Metric]:
        return super().collect() if self._is_measured else []


BUILD_INFO = Gauge("kb_build_info", "1, with the service and its version as labels.", ["service", "version"])
EMBEDDING_CACHE_HITS = Counter("kb_embedding_cache_hits_total", "Texts whose vector was already paid for.", ["model"])
EMBEDDING_CACHE_MISSES = Counter(
    "kb_embedding_cache_misses_total",
    "Texts that were embedded and stored, each once however often it was tried. High on unchanged documents: look for a"
    " changed chunker or model.",
    ["model"],
)
EMBEDDING_API_CALLS = Counter(
    "kb_embedding_api_calls_total", "Requests to the embedding provider, retries included.", ["model"]
)
EMBEDDINGS_GENERATED = Counter(
    "kb_embeddings_generated_total", "Vectors generated and stored. Equals the SPUs charged.", ["model"]
)
EMBEDDINGS_LOST = Counter(
    "kb_embeddings_lost_total",
    "Vectors generated but not stored and so not charged. Rising: MongoDB refuses writes.",
    ["model"],
)
EMBEDDING_REQUEST_SECONDS = Histogram(
    "kb_embedding_request_seconds",
    "Seconds a provider took for one batch. High: ask the provider.",
    ["model"],
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
PROVIDER_RESPONSES = Counter(
    "kb_provider_responses_total",
    "Answers of the embedding provider by class. Many 429: ask the provider for higher limits, or run fewer indexers.",
    ["model", "status_class"],
)
CHAT_CALLS = Counter(
    "kb_chat_calls_total",
    "Calls of chat models by the class of their answer, repeated ones included. Many 429: ask for higher limits.",
    ["model", "status_class"],
)
CHAT_REQUEST_SECONDS = Histogram(
    "kb_chat_request_seconds",
    "Seconds a chat model took for one whole answer. High: ask the provider, or shorten what it is given.",
    ["model"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
CHAT_TOKENS = Counter(
    "kb_chat_tokens_total",
    "Tokens of prompts and of completions, as providers count them; estimated where they say nothing.",
    ["model", "kind"],
)
RATE_LIMIT_WAIT_SECONDS = Histogram(
    "kb_ratelimit_wait_seconds",
    "Seconds waited for requests and tokens a minute of a kb or of a model. High: raise its limits.",
    ["scope"],
    buckets=(0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RATE_LIMIT_REJECTED = Counter(
    "kb_ratelimit_rejected_total",
    "Asks that would have waited too long and went back to the queue. Steady: raise the limits of the kb or model.",
    ["scope"],
)
CIRCUITS_OPENED = Counter(
    "kb_circuits_opened_total",
    "Times that an organization's way to a model was given up for a while: outage, quota or key. See circuit.opened.",
    ["cause"],
)
CIRCUITS_OPEN = Gauge(
    "kb_circuits_open",
    "Ways of organizations to models that are given up now, counted by the reconciler (each replica exports the total:"
    " use max, not sum). Any for long: with outage, ask the provider; with quota or key, see circuit.opened for whose"
    " key it is.",
    ["cause"],
)
DOCUMENTS = Gauge(
    "kb_documents",
    "Documents in KBs by state, counted by the reconciler (each replica exports the total: use max, not sum). One in"
    " two KBs counts twice; one that is indexed and has a job as both. Many failed or waiting_for_text: see the KBs'"
    " documents.",
    ["state"],
)
HTTP_REQUESTS = Counter(
    "kb_http_requests_total",
    "HTTP requests by the route's template (empty: no such path, or not HTTP), method and status (499: the caller left"
    " before the answer). Many 5xx: see http.failed in the logs; many 4xx: see http.refused.",
    ["route", "method", "status"],
)
HTTP_REQUEST_SECONDS = Histogram(
    "kb_http_request_seconds",
    "Seconds from the head of an HTTP request to the end of its answer. High: see what the route waits for.",
    ["route", "method"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)
HTTP_QUEUE_SECONDS = Histogram(
    "kb_http_queue_seconds",
    "Seconds that requests waited because other requests of their organization were processed, while other"
    " organizations called, too; only those that waited. High: one organization sends more than its share, or this"
    " service needs more replicas.",
)
INDEXING_QUEUE_DEPTH = MeasuredGauge(
    "kb_indexing_queue_depth",
    "Open index jobs of all KBs (each replica exports the total: use max, not sum). Growing: add indexers.",
)
INDEXING_IN_FLIGHT_LIMIT = Gauge(
    "kb_indexing_in_flight_limit",
    "How many documents or events this replica works on at once at most. Documents below KB_MAX_IN_FLIGHT for long:"
    " they take too long; see load.lowered in the logs, and give MongoDB and the indexers more CPU.",
    ["work"],
)
CHUNKS_INDEXED = Counter("kb_chunks_indexed_total", "Chunks written to a KB's collection.", ["kb_id"])
INDEXING_ERRORS = Counter(
    "kb_indexing_errors_total",
    "Index attempts that failed, by class. See the KB's documents with status=failed.",
    ["kb_id", "error_type"],
)
SWAP_TRANSACTIONS = Counter(
    "kb_swap_transactions_total",
    "Swaps by outcome: committed, fenced (the document or KB has changed: decided again), conflict (repeated), expired"
    " (undone as their time was over, and repeated). Many expired: give MongoDB and the indexers more CPU.",
    ["outcome"],
)
TIME_TO_SEARCHABLE_SECONDS = Histogram(
    "kb_time_to_searchable_seconds",
    "Seconds from an event's time to its chunks being found. High: see queue depth and provider latency.",
    ["path"],
    buckets=(0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600),
)
EVENT_PROCESSING_SECONDS = Histogram(
    "kb_event_processing_seconds",
    "Seconds a stage of indexing took.",
    ["stage"],
    buckets=(0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
EVENTS_CONSUMED = Counter(
    "kb_events_consumed_total",
    "Kafka records by what became of them; the outcomes of a topic add up to all its records.",
    ["topic", "outcome"],
)
CONSUMER_REBALANCES = Counter(
    "kb_consumer_rebalances_total", "Partition assignments. Frequent: replicas come and go.", ["group"]
)
CONSUMER_REBALANCE_SECONDS = Histogram(
    "kb_consumer_rebalance_seconds",
    "Seconds from giving partitions back to being assigned some again; meanwhile this replica handles no records. High:"
    " replicas come and go too often, or handlers take long to stop.",
    ["group"],
    buckets=(0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120),
)
CONSUMER_COMMIT_FAILURES = Counter(
    "kb_consumer_commit_failures_total",
    "Offset commits refused or unanswered; their records are handled again. Steady: rebalances or the broker.",
    ["group"],
)
CONSUMER_RETRIES = Counter(
    "kb_consumer_retries_total",
    "Tries of a record that failed in a way that may pass. Rising: see record.retried in the logs.",
    ["topic"],
)
CONSUMER_LAG_RECORDS = Gauge(
    "kb_consumer_lag_records",
    "Records after the committed offset. Growing while nothing is consumed: a stuck consumer.",
    ["topic", "partition", "group"],
)
CONSUMER_SURVEY_FAILURES = Counter(
    "kb_consumer_survey_failures_total",
    "Counts of the lag that failed; until the next one the figures are old. Steady: the broker does not answer.",
    ["group"],
)
CONSUMER_STUCK_SECONDS = Gauge(
    "kb_consumer_stuck_seconds",
    "Seconds since the oldest unfinished record of a topic came to this replica; 0 without one. Minutes: see"
    " record.retried in the logs.",
    ["topic", "group"],
)
CONSUMER_SKIPPED_RECORDS = Counter(
    "kb_consumer_skipped_records_total",
    "Offsets deleted by Kafka before the group had read them. Any: see records.skipped in the logs, and have document"
    " events published again.",
    ["topic", "group"],
)
CONSUMER_REPLACED_LOGS = Counter(
    "kb_consumer_replaced_logs_total",
    "Partitions read from the beginning because the topic was deleted and created again, or has lost its end. Any: have"
    " the document events published again that were not read before.",
    ["topic", "group"],
)
DLQ_MESSAGES = Counter(
    "kb_dlq_messages_total",
    "Records sent to the dead letters, by reason. Any: read the reason in the record's headers.",
    ["topic", "reason"],
)
EVENT_LOOP_LAG_SECONDS = MeasuredGauge(
    "kb_event_loop_lag_seconds", "Seconds the event loop was late. High: CPU work on the loop."
)
PRODUCER_REPLACEMENTS = Counter(
    "kb_producer_replacements_total",
    "Kafka clients that were replaced after an error they can't recover from; their messages were sent again. Now and "
    "then after a broker was away; rising all the time: look at the brokers' logs.",
    ["reason"],
)
OUTBOX_PENDING = MeasuredGauge(
    "kb_outbox_pending", "Messages committed and not yet sent (use max, not sum). Growing: the broker is away."
)
OUTBOX_SET_ASIDE = MeasuredGauge(
    "kb_outbox_set_aside",
    "Messages that Kafka refused for good and that wait for an operator (use max, not sum). Any: remove the cause, "
    "then redrive what GET /unsendable-messages lists.",
)
OUTBOX_UNSENDABLE = Counter(
    "kb_outbox_unsendable_total",
    "Messages that Kafka refused for good. Rising with too-large: raise the topic's max.message.bytes.",
    ["topic", "reason"],
)
RECONCILER_QUEUED = Counter(
    "kb_reconciler_queued_total",
    "Documents the reconciler found behind and queued again. Rising: find out why.",
    ["kind"],
)
RECONCILER_LAST_SUCCESS_TIMESTAMP_SECONDS = MeasuredGauge(
    "kb_reconciler_last_success_timestamp_seconds",
    "Unix time of the last full pass; missing before the first. Old: the reconciler is stuck.",
)
RUNS = Counter("kb_runs_total", "Runs of models with tools by how they ended.", ["status"])
RUN_SECONDS = Histogram(
    "kb_run_seconds",
    "Seconds of a whole run. High: look at the duration of its calls, and at kb_chat_request_seconds.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)
SEARCH_REQUESTS = Counter(
    "kb_search_requests_total",
    "Searches by outcome. degraded: by words alone, as the embedding provider gave no vector; "
    "see search.degraded in the logs.",
    ["outcome"],
)
SEARCH_RESTARTS = Counter(
    "kb_search_restarts_total", "Searches that were done again, because their key or knowledge base had changed."
)
QUERY_VECTOR_CACHE_HITS = Counter(
    "kb_search_query_vector_cache_hits_total",
    "Vectors of queries that came from the cache. Low beside kb_search_requests_total: queries seldom come back, and "
    "each new one waits for its provider.",
)
SEARCH_SECONDS = Histogram(
    "kb_search_seconds",
    "Seconds of a search by stage. High embed: the provider; high vector or text: the search nodes.",
    ["stage"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
SEARCH_RESULTS_COUNT = Histogram(
    "kb_search_results_count",
    "Results a search returned. Many zeros: see the queries.",
    buckets=(0, 1, 2, 5, 10, 20, 50, 100),
)
SEARCH_FILTER_REJECTED = Counter(
    "kb_search_filter_rejected_total",
    "Filters refused with 422, by reason. Rising: a client bug, or probing.",
    ["reason"],
)
SPU_CHARGED = Counter(
    "kb_spu_charged_total", "SPUs charged; a view of the ledger, which is the truth.", ["operation_type"]
)
AUTHENTICATION_FAILURES = Counter(
    "kb_authentication_failures_total",
    "Requests without a right API key: refused, or limited because there were too many. Rising: look for "
    "authentication.failures_limited in the log, which names the address.",
    ["outcome"],
)


_BY_KNOWLEDGE_BASE = (CHUNKS_INDEXED, INDEXING_ERRORS)


def tell_build(service: str) -> None:
    """Export which service this process is, and its version."""
    BUILD_INFO.labels(service, version("kb-shared")).set(1)


def knowledge_bases_with_series() -> set[str]:
    return {
        sample.labels["kb_id"]
        for metric in _BY_KNOWLEDGE_BASE
        for family in metric.collect()
        for sample in family.samples
    }


def forget_knowledge_base(kb_id: str) -> None:
    """Drop the series of a KB that is gone."""
    for metric in _BY_KNOWLEDGE_BASE:
        metric.remove_by_labels({"kb_id": kb_id})
