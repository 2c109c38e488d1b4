"""Defines every metric of the system. Help texts say the unit, and what to do when the figure is high.

Labels are closed sets, except `kb_id`, which is limited (`KnowledgeBaseCounter`) and removed with its KB
(`forget_knowledge_base`). Never a label: document ids, queries, hashes, error texts, model names as a request gave
them.
"""

import asyncio
from collections.abc import Callable, Iterable
from importlib.metadata import version

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics_core import Metric

from kb_shared.observability.knowledge_base_series import SERIES, KnowledgeBaseCounter

# Counters would have twice as many series: the time of its creation for each one.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types for it


class MeasuredGauge(Gauge):
    """Gauge without labels that is exported from its first value on, so only by the service that measures it."""

    _is_measured = False

    def set(self, value: float) -> None:
        self._is_measured = True
        super().set(value)

    def set_function(self, f: Callable[[], float]) -> None:
        self._is_measured = True
        super().set_function(f)

    def collect(self) -> Iterable[Metric]:
        return super().collect() if self._is_measured else []


def count_event_loop_tasks() -> int:
    """Return the number of tasks that have not ended; 0 in a thread without an event loop."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return 0


BUILD_INFO = Gauge("kb_build_info", "1, with the service and its version as labels.", ["service", "version"])
EMBEDDING_CACHE_HITS = Counter(
    "kb_embedding_cache_hits_total", "Texts whose vector was in the cache, which costs nothing.", ["model"]
)
EMBEDDING_CACHE_MISSES = Counter(
    "kb_embedding_cache_misses_total",
    "Texts that were embedded and stored, each counted once regardless of retries. High for unchanged documents: look"
    " for a changed chunker or model.",
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
    "Vectors generated but not stored, and therefore not charged. Rising: MongoDB refuses writes.",
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
    "Responses of the embedding provider by status class. Many 429: ask the provider for higher limits, or run fewer"
    " indexers.",
    ["model", "status_class"],
)
CHAT_CALLS = Counter(
    "kb_chat_calls_total",
    "Calls of chat models by status class, retries included. Many 429: ask the provider for higher limits.",
    ["model", "status_class"],
)
CHAT_REQUEST_SECONDS = Histogram(
    "kb_chat_request_seconds",
    "Seconds a chat model took for one whole answer. High: ask the provider, or shorten the prompts.",
    ["model"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
CHAT_TOKENS = Counter(
    "kb_chat_tokens_total",
    "Tokens of prompts and of completions, as reported by the providers; estimated if they report none.",
    ["model", "kind"],
)
RETRIES = Counter(
    "kb_retries_total",
    "Repeated calls of embedding and chat models by the status class of the call before: 429, 5xx (also no answer),"
    " timeout, bad_answer, late_model or other. Rising: see the same class in kb_provider_responses_total and"
    " kb_chat_calls_total.",
    ["model", "reason"],
)
RATE_LIMIT_WAIT_SECONDS = Histogram(
    "kb_ratelimit_wait_seconds",
    "Seconds that calls waited for the limit of requests or tokens per minute of a KB or a model. High: raise its"
    " limits.",
    ["scope"],
    buckets=(0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RATE_LIMIT_REJECTED = Counter(
    "kb_ratelimit_rejected_total",
    "Calls refused because they would have waited too long for a rate limit. Steady: raise the limits of the KB"
    " or model.",
    ["scope"],
)
CIRCUITS_OPENED = Counter(
    "kb_circuits_opened_total",
    "Times that the circuit breaker of an organization and a model opened: outage, quota or key. See circuit.opened in"
    " the logs.",
    ["cause"],
)
CIRCUITS_OPEN = Gauge(
    "kb_circuits_open",
    "Circuit breakers that are open now, counted by the reconciler (each replica exports the total: use max, not sum)."
    " Above 0 for long: with outage, ask the provider; with quota or key, see circuit.opened in the logs for the"
    " organization.",
    ["cause"],
)
DOCUMENTS = Gauge(
    "kb_documents",
    "Documents in KBs by state, counted by the reconciler (each replica exports the total: use max, not sum). A"
    " document in two KBs counts twice; an indexed document with an open job counts in both states. Many failed or"
    " waiting_for_text: see the documents of the KBs.",
    ["state"],
)
HTTP_REQUESTS = Counter(
    "kb_http_requests_total",
    "HTTP requests by route template (empty: unknown path, or not HTTP), method and status (499: the client"
    " disconnected before the response). Many 5xx: see http.failed in the logs; many 4xx: see http.refused.",
    ["route", "method", "status"],
)
HTTP_REQUEST_SECONDS = Histogram(
    "kb_http_request_seconds",
    "Seconds from the head of an HTTP request to the end of the response. High: look at what the route waits for, such"
    " as MongoDB or a provider.",
    ["route", "method"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)
HTTP_QUEUE_SECONDS = Histogram(
    "kb_http_queue_seconds",
    "Seconds that requests waited in the fair queue for other requests of their organization; only requests that"
    " waited. High: one organization sends more than its share, or the service needs more replicas.",
)
OLDEST_UNINDEXED_AGE_SECONDS = Gauge(
    "kb_oldest_unindexed_age_seconds",
    "Seconds since the event of the oldest open job by path, 0 without any; counted by the reconciler (each replica"
    " exports the total: use max, not sum). Jobs that wait for a text, a person, a budget or a key of an organization"
    " do not count. Minutes for ocr or tag: see kb_indexing_queue_depth and the errors of the pending documents.",
    ["path"],
)
INDEXING_QUEUE_DEPTH = MeasuredGauge(
    "kb_indexing_queue_depth",
    "Open index jobs of all KBs (each replica exports the total: use max, not sum). Growing: add indexers.",
)
INDEXING_IN_FLIGHT_LIMIT = Gauge(
    "kb_indexing_in_flight_limit",
    "Limit of documents or events that this replica processes at once. Documents below KB_MAX_IN_FLIGHT for long: they"
    " take too long; see load.lowered in the logs, and give MongoDB and the indexers more CPU.",
    ["work"],
)
CHUNKS_INDEXED = KnowledgeBaseCounter(
    "kb_chunks_indexed_total",
    "Chunks written to a KB's collection. _other: KBs beyond KB_METRICS_MAX_KB of this replica.",
    ["kb_id"],
)
INDEXING_ERRORS = KnowledgeBaseCounter(
    "kb_indexing_errors_total",
    "Failed index attempts by error class. See the documents of the KB with status=failed. _other: KBs beyond"
    " KB_METRICS_MAX_KB of this replica.",
    ["kb_id", "error_type"],
)
SWAP_TRANSACTIONS = Counter(
    "kb_swap_transactions_total",
    "Swaps by outcome: committed, fenced (the document or KB has changed: decided again), conflict (retried), expired"
    " (aborted by MongoDB after its time limit, and retried). Many expired: give MongoDB and the indexers more CPU.",
    ["outcome"],
)
TIME_TO_SEARCHABLE_SECONDS = Histogram(
    "kb_time_to_searchable_seconds",
    "Seconds from the time of an event until a search finds its chunks. High: see kb_indexing_queue_depth and"
    " kb_embedding_request_seconds.",
    ["path"],
    buckets=(0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600),
)
EVENT_PROCESSING_SECONDS = Histogram(
    "kb_event_processing_seconds",
    "Seconds that a stage of indexing took. High: the stage shows whether MongoDB, the provider or chunking is slow.",
    ["stage"],
    buckets=(0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
EVENTS_CONSUMED = Counter(
    "kb_events_consumed_total",
    "Kafka records by outcome; the outcomes of a topic add up to all its records.",
    ["topic", "outcome"],
)
CONSUMER_REBALANCES = Counter(
    "kb_consumer_rebalances_total", "Partition assignments. Frequent: replicas start and stop too often.", ["group"]
)
CONSUMER_REBALANCE_SECONDS = Histogram(
    "kb_consumer_rebalance_seconds",
    "Seconds from the revocation of partitions to the next assignment, in which this replica handles no records. High:"
    " replicas start and stop too often, or handlers take long to stop.",
    ["group"],
    buckets=(0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120),
)
CONSUMER_COMMIT_FAILURES = Counter(
    "kb_consumer_commit_failures_total",
    "Offset commits that failed; their records are handled again. Steady: look at rebalances and at the broker.",
    ["group"],
)
CONSUMER_RETRIES = Counter(
    "kb_consumer_retries_total",
    "Retries of records after a transient error. Rising: see record.retried in the logs.",
    ["topic"],
)
CONSUMER_LAG_RECORDS = Gauge(
    "kb_consumer_lag_records",
    "Kafka lag: records after the committed offset. Growing while kb_events_consumed_total stands still: a stuck"
    " consumer.",
    ["topic", "partition", "group"],
)
CONSUMER_LAG_SECONDS = Gauge(
    "kb_consumer_lag_seconds",
    "Kafka lag in seconds: age of the oldest record of a partition that is not handled; 0 if all are. Minutes: see"
    " kb_consumer_stuck_seconds; if that is low, add indexers.",
    ["topic", "partition", "group"],
)
CONSUMER_LAST_POLL_AGE_SECONDS = Gauge(
    "kb_consumer_last_poll_age_seconds",
    "Seconds since this replica last asked for records as a member of its group, or since its start if it never did;"
    " computed at each scrape. A minute: it lost its group or can't reach the brokers; see consumer.session_failed in"
    " the logs.",
    ["group"],
)
CONSUMER_SURVEY_FAILURES = Counter(
    "kb_consumer_survey_failures_total",
    "Failed measurements of the Kafka lag; kb_consumer_lag_records and kb_consumer_lag_seconds are old until the next"
    " one. Steady: the broker does not answer.",
    ["group"],
)
CONSUMER_STUCK_SECONDS = Gauge(
    "kb_consumer_stuck_seconds",
    "Seconds since this replica read its oldest unfinished record of a topic; 0 if all are finished. Minutes: see"
    " record.retried in the logs.",
    ["topic", "group"],
)
CONSUMER_SKIPPED_RECORDS = Counter(
    "kb_consumer_skipped_records_total",
    "Offsets that Kafka deleted before the group read them. Above 0: see records.skipped in the logs, and have the"
    " document events published again.",
    ["topic", "group"],
)
CONSUMER_REPLACED_LOGS = Counter(
    "kb_consumer_replaced_logs_total",
    "Partitions that were read from the beginning because the topic was deleted and created again, or its log was"
    " truncated. Above 0: have the document events published again that were not read before.",
    ["topic", "group"],
)
DLQ_MESSAGES = Counter(
    "kb_dlq_messages_total",
    "Records sent to the dead letters, by reason. Above 0: see GET /dead-letters, or the headers of the records.",
    ["topic", "reason"],
)
DLQ_DEPTH = Gauge(
    "kb_dlq_depth",
    "Open dead letters of a topic: neither redriven nor discarded, counted by the reconciler (each replica exports the"
    " total: use max, not sum). Above 0: see GET /dead-letters; remove the cause, then redrive or discard them.",
    ["topic"],
)
DLQ_OLDEST_AGE_SECONDS = Gauge(
    "kb_dlq_oldest_age_seconds",
    "Seconds since the oldest of the letters in kb_dlq_depth was filed; 0 without any. Near 90 days: it is deleted"
    " then.",
    ["topic"],
)
EVENT_LOOP_LAG_SECONDS = MeasuredGauge(
    "kb_event_loop_lag_seconds", "Event-loop lag: seconds that the event loop was late. High: CPU work blocks the loop."
)
EVENT_LOOP_TASKS = Gauge(
    "kb_event_loop_tasks",
    "Tasks of the event loop, counted when the metrics are read. Growing for hours at the same load: tasks never end.",
)
EVENT_LOOP_TASKS.set_function(count_event_loop_tasks)
PRODUCER_REPLACEMENTS = Counter(
    "kb_producer_replacements_total",
    "Kafka clients that were replaced after an unrecoverable error; their messages were sent again. Single ones after a"
    " broker was away are normal. Rising all the time: look at the brokers' logs.",
    ["reason"],
)
MONGO_LAST_ANSWER_AGE_SECONDS = MeasuredGauge(
    "kb_mongo_last_answer_age_seconds",
    "Seconds since a command of this process last succeeded in MongoDB, or since its start if none did; computed at"
    " each scrape. A search service without requests sends no commands, so look at the minimum of all. A minute: no"
    " primary answers; see start.waiting and work_watch.interrupted in the logs.",
)
OUTBOX_PENDING = MeasuredGauge(
    "kb_outbox_pending", "Messages in the outbox that are not sent yet (use max, not sum). Growing: the broker is away."
)
OUTBOX_OLDEST_AGE_SECONDS = MeasuredGauge(
    "kb_outbox_oldest_age_seconds",
    "Seconds since the oldest of the messages in kb_outbox_pending was written; 0 without any (use max, not sum)."
    " Minutes: see outbox.send_failed in the logs.",
)
OUTBOX_SET_ASIDE = MeasuredGauge(
    "kb_outbox_set_aside",
    "Unsendable messages that wait for an operator (use max, not sum). Above 0: remove the cause, then redrive the"
    " messages that GET /unsendable-messages lists.",
)
OUTBOX_UNSENDABLE = Counter(
    "kb_outbox_unsendable_total",
    "Messages that became unsendable, because Kafka refused them permanently. Rising with too-large: raise"
    " max.message.bytes of the topic.",
    ["topic", "reason"],
)
EVENTS_LISTED = Counter(
    "kb_events_listed_total",
    "Events that GET /events returns from now on. Constant while documents are indexed: see events.listing_interrupted"
    " in the logs of kb-api.",
)
WEBHOOK_ATTEMPTS = Counter(
    "kb_webhook_attempts_total",
    "Requests to webhooks of organizations, by outcome: delivered, put-off (the receiver answered 429 or 503 and is"
    " paused), refused (it answered with another error), or what failed before an answer: the name, the connection, a"
    " check of TLS, a phase that took too long. All failing: see whether this service reaches the internet.",
    ["outcome"],
)
WEBHOOK_DEAD = Counter(
    "kb_webhook_deliveries_dead_total",
    "Deliveries that were given up, after a day or because their webhook was disabled. Rising: tell the organization,"
    " which lists and repeats them at /webhooks/{webhook_id}/deliveries.",
)
EVENT_STREAMS = MeasuredGauge(
    "kb_event_streams", "Connections that follow GET /events. Near KB_HTTP_MAX_STREAMS: add a replica of kb-api."
)
RECONCILER_DRIFT = Gauge(
    "kb_reconciler_drift",
    "Drift by kind that the last pass found that looked for it (use max, not sum). Above 0 pass after pass: repairs"
    " fail or the cause goes on; see drift.repaired and pass.finished in the logs.",
    ["kind"],
)
RECONCILER_REPAIRS = Counter(
    "kb_reconciler_repairs_total",
    "Repairs of drift by kind and outcome: repaired, or queued for the indexer (repaired); not made because too many"
    " documents would have been removed (stopped). Rising: look for the cause of the drift.",
    ["kind", "outcome"],
)
RECONCILER_PASS_SECONDS = Histogram(
    "kb_reconciler_pass_seconds",
    "Seconds of a full or an incremental pass of the reconciler, with its repairs and its pauses while documents wait."
    " High: look at kb_reconciler_drift and kb_indexing_queue_depth, and at GET /reconcile/passes.",
    ["pass"],
    buckets=(0.01, 0.1, 1, 5, 10, 30, 60, 300, 900, 3600),
)
RECONCILER_LEADER = MeasuredGauge(
    "kb_leader",
    "1 while this replica holds the lease of the passes, else 0. The sum is 1; 0 for minutes: no reconciler works. 2"
    " for a moment after a failure is harmless, because each write is fenced.",
)
RECONCILER_LAST_SUCCESS_TIMESTAMP_SECONDS = MeasuredGauge(
    "kb_reconciler_last_success_timestamp_seconds",
    "Unix time of the last complete pass; not exported before the first. Old: the reconciler is stuck.",
)
MIGRATIONS_PENDING = MeasuredGauge(
    "kb_migrations_pending",
    "Migrations that the stored data still lacks (each reconciler exports the total: use max, not sum). Above 0 for"
    " long: see migration.interrupted in the logs.",
)
RUNS = Counter("kb_runs_total", "Runs of chat models by final status.", ["status"])
RUN_SECONDS = Histogram(
    "kb_run_seconds",
    "Seconds of a whole run. High: look at the durations of its tool calls, and at kb_chat_request_seconds.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)
RUN_ITERATIONS = Histogram(
    "kb_run_iterations",
    "Answers of the model in one run, with those that only call tools. Often near the limit of the run: look at its"
    " tools and prompts.",
    buckets=(0, 1, 2, 3, 4, 6, 8, 10, 12),
)
SEARCH_REQUESTS = Counter(
    "kb_search_requests_total",
    "Searches by outcome. degraded: answered by the text leg alone, because the embedding provider gave no vector; see"
    " search.degraded in the logs.",
    ["outcome"],
)
SEARCH_RESTARTS = Counter(
    "kb_search_restarts_total", "Searches that restarted, because their API key or KB had changed."
)
QUERY_VECTOR_CACHE_HITS = Counter(
    "kb_search_query_vector_cache_hits_total",
    "Vectors of queries that came from the cache. Low in relation to kb_search_requests_total: queries are seldom"
    " repeated, and each new one waits for the provider.",
)
SEARCH_SECONDS = Histogram(
    "kb_search_seconds",
    "Seconds of a search by stage. High embed: look at the provider; high vector or text: look at Atlas Search.",
    ["stage"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
SEARCH_RESULTS_COUNT = Histogram(
    "kb_search_results_count",
    "Number of results of a search. Many zeros: look at the queries.",
    buckets=(0, 1, 2, 5, 10, 20, 50, 100),
)
SEARCH_FILTER_REJECTED = Counter(
    "kb_search_filter_rejected_total",
    "Filters refused with 422, by reason. Rising: a bug in a client, or an attack.",
    ["reason"],
)
SPANS_DROPPED = Counter(
    "kb_spans_dropped_total",
    "Spans that were not exported: queue_full (more were finished than could be sent), export_failed. Rising: see"
    " spans.dropped in the logs, and whether the collector answers.",
    ["reason"],
)
SPU_CHARGED = Counter("kb_spu_charged_total", "SPUs charged; the ledger is the source of truth.", ["operation_type"])
CONTENT_REFUSED = Counter(
    "kb_content_refused_total",
    "Texts that were refused because they contain a credential, by the kind of it."
    " Rising: someone stores credentials as knowledge, or in documents of a KB that refuses them.",
    ["pattern"],
)
ENTRY_OUTCOMES = Counter(
    "kb_entry_outcomes_total",
    "What became of changes of entries: ready (found by searches), waiting (an attempt failed and is repeated), error,"
    " outdated (of an earlier revision). Many error: see embedding_error of the entries.",
    ["outcome"],
)
IMPORT_ITEMS = Counter(
    "kb_import_items_total",
    "Items of imports of knowledge: changed, unchanged, skipped. Many skipped: their reasons are in the answer to the"
    " caller.",
    ["outcome"],
)
CHECK_INS = Counter(
    "kb_check_ins_total",
    "Texts that chat models turned into knowledge: proposed, invalid (no answer could be used), applied. Many invalid:"
    " name another model in KB_CHAT_MODEL.",
    ["outcome"],
)
SOURCE_RUNS = Counter(
    "kb_source_runs_total",
    "Runs of sources that have ended, by kind of the source, trigger and outcome: ok, partial (something was left out),"
    " error (nothing was read), cancelled. Many error at once: see whether the runner reaches the internet.",
    ["kind", "trigger", "outcome"],
)
SOURCE_RUN_SECONDS = Histogram(
    "kb_source_run_seconds",
    "Seconds from the first claim of a run of a source to its end, without previews. Near KB_SOURCE_RUN_MAX_S: servers"
    " are slow, or sources are large.",
    ["kind"],
    buckets=(0.5, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200),
)
SOURCE_ITEMS = Counter(
    "kb_source_items_total",
    "Items that runs of sources have read, by outcome: created, updated, unchanged, skipped, failed, gone, redirected."
    " Many failed: see the messages of the runs.",
    ["outcome"],
)
SOURCE_BYTES = Counter("kb_source_bytes_total", "Bytes of the items that runs of sources have read.")
SOURCE_RUNS_CONTINUED = Counter(
    "kb_source_runs_continued_total",
    "Runs of sources that a runner has continued after another one ended or lost MongoDB. Rising without updates:"
    " runners die; look at their memory.",
)
SOURCE_ADDRESSES_REFUSED = Counter(
    "kb_source_addresses_refused_total",
    "Addresses of sources that were refused before anything was sent: form (no http or https, another port,"
    " credentials), not_public (the name leads to a private address, or to none). Rising: someone tries to reach our"
    " own network; see source.address_refused in the logs.",
    ["reason"],
)
SOURCE_RUNS_OPEN = Gauge(
    "kb_source_runs_open",
    "Runs and previews of sources that have not ended, by state: waiting for a runner, running (each runner exports the"
    " total: use max, not sum). Many waiting: add runners.",
    ["state"],
)
SOURCE_OLDEST_WAITING_SECONDS = MeasuredGauge(
    "kb_source_oldest_waiting_seconds",
    "Seconds for which the oldest run or preview of a source has waited for a runner; 0 without any (each runner"
    " exports the total: use max, not sum). Minutes: add runners.",
)
AUTHENTICATION_FAILURES = Counter(
    "kb_authentication_failures_total",
    "Requests without a valid API key: refused, or limited because there were too many. Rising: see"
    " authentication.failures_limited in the logs, which names the address.",
    ["outcome"],
)


_BY_KNOWLEDGE_BASE = (CHUNKS_INDEXED, INDEXING_ERRORS)


def export_build_info(service: str) -> None:
    """Export the name of the service and its version."""
    BUILD_INFO.labels(service, version("kb-shared")).set(1)


def limit_knowledge_bases(limit: int) -> None:
    """Let so many KBs have series of their own in this process. The others are counted together, as `_other`."""
    SERIES.limit = limit


def knowledge_bases_with_series() -> set[str]:
    return SERIES.kb_ids()


def forget_knowledge_base(kb_id: str) -> None:
    """Remove the series of a deleted KB."""
    for metric in _BY_KNOWLEDGE_BASE:
        metric.remove_by_labels({"kb_id": kb_id})
    SERIES.forget(kb_id)
