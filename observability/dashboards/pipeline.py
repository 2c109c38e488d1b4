from collections.abc import Sequence
from typing import Final

from observability.dashboards.panel import Dashboard, Panel, PanelQuery, PanelRow
from observability.dashboards.promql import largest, quantile, recent_increase, recent_quantile, total_rate

LATE: Final[Sequence[Panel]] = (
    Panel(
        title="Time from an event to the search, by path",
        description=(
            "95 % of the changes are searchable within these seconds after their event. ocr is a new text, tag a tag"
            " that was set or removed. backfill, reconcile and retry may take hours. High: look at the two panels"
            " beside this one, and then at the stages below."
        ),
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_time_to_searchable_seconds", by="path"), legend="{{path}}")],
        alerts=["KbTimeToSearchableBudgetBurn"],
        threshold=60,
    ),
    Panel(
        title="Age of the oldest index job",
        description=(
            "Seconds since the event of the oldest document that waits to be indexed. High for ocr or tag: see the"
            " queue and the failed attempts below."
        ),
        unit="s",
        queries=[PanelQuery(expr=largest("kb_oldest_unindexed_age_seconds", by="path"), legend="{{path}}")],
        alerts=["KbIndexLag", "KbFreshnessBudgetBurn"],
        threshold=900,
    ),
    Panel(
        title="Age of the oldest record in Kafka",
        description=(
            "Seconds since the oldest record was written that no indexer has handled. High while the panel Oldest"
            " unfinished record is low: start more indexers. Both high: one record blocks its partition."
        ),
        unit="s",
        queries=[PanelQuery(expr=largest("kb_consumer_lag_seconds", by="topic"), legend="{{topic}}")],
        alerts=["KbIndexLag"],
        threshold=300,
    ),
)

WORK: Final[Sequence[Panel]] = (
    Panel(
        title="Index jobs that wait",
        description=(
            "Open index jobs of all knowledge bases. Growing for an hour: start more indexers, unless the provider is"
            " the limit (dashboard Provider and cache)."
        ),
        unit="short",
        queries=[PanelQuery(expr="max(kb_indexing_queue_depth)", legend="jobs")],
        alerts=["KbIndexLag"],
    ),
    Panel(
        title="Records handled",
        description=(
            "Records of Kafka a second by outcome. Nothing while records wait in Kafka: the consumers are stuck. See"
            " consumer.session_failed in the logs of the indexers."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=total_rate("kb_events_consumed_total", by="topic, outcome"), legend="{{topic}} {{outcome}}")
        ],
        alerts=["KbConsumerStuck"],
    ),
    Panel(
        title="Chunks written",
        description=(
            "Chunks a second that were written to the collections of all knowledge bases: the throughput of the"
            " indexers."
        ),
        unit="short",
        queries=[PanelQuery(expr=total_rate("kb_chunks_indexed_total"), legend="chunks")],
    ),
    Panel(
        title="Duration of each stage",
        description=(
            "95 % of the documents pass a stage within these seconds. High chunk: give the indexers more CPU. High"
            " embed: see the provider. High swap: MongoDB is slow."
        ),
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_event_processing_seconds", by="stage"), legend="{{stage}}")],
        alerts=["KbMongoSlow"],
        threshold=2.5,
    ),
    Panel(
        title="Swaps by outcome",
        description=(
            "Transactions a second that replace the chunks of a document. fenced and conflict are repeated and"
            " harmless. Many expired: MongoDB needs more CPU."
        ),
        unit="short",
        queries=[PanelQuery(expr=total_rate("kb_swap_transactions_total", by="outcome"), legend="{{outcome}}")],
        alerts=["KbMongoSlow"],
    ),
    Panel(
        title="Failed attempts to index",
        description=(
            "Failed attempts in 5 minutes by error. Most are repeated. docs/reference/errors.md explains each error,"
            " and GET .../documents?status=failed lists the documents."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_indexing_errors_total", by="error_type"), legend="{{error_type}}")
        ],
        alerts=["KbDocumentsFailing"],
    ),
    Panel(
        title="Documents by state",
        description=(
            "Documents in knowledge bases. A document in two of them counts twice. failed rising: see the runbook. Many"
            " waiting_for_text: the OCR service is late."
        ),
        unit="short",
        queries=[PanelQuery(expr=largest("kb_documents", by="state"), legend="{{state}}")],
        alerts=["KbDocumentsFailing"],
    ),
    Panel(
        title="Limit of documents in flight",
        description=(
            "Documents or events that a replica handles at once; the lowest of all replicas. Below KB_MAX_IN_FLIGHT for"
            " long: MongoDB or the indexers need more CPU. See load.lowered in the logs."
        ),
        unit="short",
        queries=[PanelQuery(expr="min by (work) (kb_indexing_in_flight_limit)", legend="{{work}}")],
    ),
)

CONSUMERS: Final[Sequence[Panel]] = (
    Panel(
        title="Oldest unfinished record",
        description=(
            "Seconds since a replica read the oldest record that it has not finished. Minutes: the record is repeated"
            " again and again and blocks its partition. See record.retried in the logs."
        ),
        unit="s",
        queries=[PanelQuery(expr=largest("kb_consumer_stuck_seconds", by="topic"), legend="{{topic}}")],
        alerts=["KbConsumerStuck"],
        threshold=600,
    ),
    Panel(
        title="Time since the last poll",
        description=(
            "Seconds since a replica last asked Kafka for records; the worst of all replicas. A minute: it has lost its"
            " consumer group or can't reach the brokers. See consumer.session_failed in the logs."
        ),
        unit="s",
        queries=[PanelQuery(expr=largest("kb_consumer_last_poll_age_seconds", by="group"), legend="{{group}}")],
        alerts=["KbKafkaDown", "KbConsumerStuck"],
        threshold=120,
    ),
    Panel(
        title="Records that wait in Kafka",
        description=(
            "Records after the committed offset, over all partitions. Growing while records are handled: start more"
            " indexers, up to the number of partitions."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr="sum by (topic) (max by (topic, partition) (kb_consumer_lag_records))",
                legend="{{topic}}",
            )
        ],
        alerts=["KbIndexLag"],
    ),
    Panel(
        title="Rebalances",
        description=(
            "Partition assignments in 5 minutes over all replicas. Frequent without a rollout: replicas restart, or"
            " lose their session because they have too little CPU."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase("kb_consumer_rebalances_total", by="group"), legend="{{group}}")],
        alerts=["KbConsumerUnsettled"],
    ),
    Panel(
        title="Pauses by rebalances",
        description=(
            "Seconds from the loss of partitions to the next assignment, in which a replica handles nothing; 95 % are"
            " shorter. High: see why replicas come and go, and how long their handlers take to stop."
        ),
        unit="s",
        queries=[
            PanelQuery(expr=recent_quantile(0.95, "kb_consumer_rebalance_seconds", by="group"), legend="{{group}}")
        ],
        alerts=["KbConsumerUnsettled"],
    ),
    Panel(
        title="Trouble with the brokers",
        description=(
            "Failures in 5 minutes. commits: offsets that were not committed, so their records are handled again."
            " measurements: the lag could not be measured. producers: clients that were replaced. Steady: look at the"
            " logs of the brokers."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_consumer_commit_failures_total"), legend="commits"),
            PanelQuery(expr=recent_increase("kb_consumer_survey_failures_total"), legend="measurements"),
            PanelQuery(
                expr=recent_increase("kb_producer_replacements_total", by="reason"),
                legend="producers {{reason}}",
                zero_reason="the local broker causes no error after which a producer has to be replaced",
            ),
        ],
        alerts=["KbConsumerUnsettled"],
    ),
    Panel(
        title="Repeated records",
        description=(
            "Records in 5 minutes that were handled again after a passing error. Rising: record.retried in the logs"
            " names the error."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase("kb_consumer_retries_total", by="topic"), legend="{{topic}}")],
    ),
    Panel(
        title="Records that were never read",
        description=(
            "Offsets in an hour that Kafka deleted before they were read, and partitions whose log was replaced. Above"
            " 0 for document-events: documents are missing or old until their events are published again."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase("kb_consumer_skipped_records_total", by="topic", window="1h"),
                legend="skipped {{topic}}",
                zero_reason="the local broker deletes no records",
            ),
            PanelQuery(
                expr=recent_increase("kb_consumer_replaced_logs_total", by="topic", window="1h"),
                legend="replaced {{topic}}",
            ),
        ],
        alerts=["KbRecordsSkipped"],
        threshold=1,
    ),
)

SET_ASIDE: Final[Sequence[Panel]] = (
    Panel(
        title="Dead letters that wait",
        description=(
            "Records that could not be handled, neither sent again nor discarded. GET /dead-letters lists them. Remove"
            " the cause, then redrive them."
        ),
        unit="short",
        queries=[PanelQuery(expr=largest("kb_dlq_depth", by="topic"), legend="{{topic}}")],
        alerts=["KbDeadLetters", "KbDeadLetterBurst"],
        threshold=1,
    ),
    Panel(
        title="New dead letters",
        description=(
            "Records in 5 minutes that became dead letters, by reason. Many at once: a producer sends wrong events, or"
            " a new version of the indexer refuses right ones."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase("kb_dlq_messages_total", by="reason"), legend="{{reason}}")],
        alerts=["KbDeadLetterBurst", "KbUnreadableRecords"],
    ),
    Panel(
        title="Age of the oldest dead letter",
        description="Seconds since it was filed. It is deleted after 90 days: redrive it before.",
        unit="s",
        queries=[PanelQuery(expr=largest("kb_dlq_oldest_age_seconds", by="topic"), legend="{{topic}}")],
        alerts=["KbDeadLetters"],
    ),
    Panel(
        title="Messages in the outbox",
        description=(
            "Messages that are not sent to Kafka yet. Growing: the brokers are away, or the permission to write is"
            " missing. See outbox.send_failed in the logs."
        ),
        unit="short",
        queries=[PanelQuery(expr="max(kb_outbox_pending)", legend="messages")],
        alerts=["KbOutboxBacklog"],
    ),
    Panel(
        title="Age of the oldest message in the outbox",
        description="Seconds since it was written. Minutes: messages are not sent. See outbox.send_failed in the logs.",
        unit="s",
        queries=[PanelQuery(expr="max(kb_outbox_oldest_age_seconds)", legend="oldest message")],
        alerts=["KbOutboxBacklog"],
        threshold=300,
    ),
    Panel(
        title="Messages that Kafka refuses",
        description=(
            "Messages that Kafka has refused for good. Those that wait are listed by GET /unsendable-messages. Remove"
            " the cause, then redrive them."
        ),
        unit="short",
        queries=[
            PanelQuery(expr="max(kb_outbox_set_aside)", legend="wait"),
            PanelQuery(expr=recent_increase("kb_outbox_unsendable_total", by="reason"), legend="new: {{reason}}"),
        ],
        alerts=["KbUnsendableMessages"],
        threshold=1,
    ),
    Panel(
        title="Events without Kafka",
        description=(
            "Events in 5 minutes that GET /events began to return, and connections that follow it. No events while"
            " documents are indexed: see events.listing_interrupted in the logs of kb-api."
        ),
        unit="short",
        queries=[
            PanelQuery(expr="sum(increase(kb_events_listed_total[5m]))", legend="listed"),
            PanelQuery(expr="sum(kb_event_streams)", legend="streams"),
        ],
    ),
    Panel(
        title="Requests to webhooks",
        description=(
            "Requests in 5 minutes by outcome, and deliveries that were given up. If all fail, look at the way of"
            " kb-api to the internet; otherwise at the receivers."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_webhook_attempts_total", by="outcome"), legend="{{outcome}}"),
            PanelQuery(expr="sum(increase(kb_webhook_deliveries_dead_total[5m]))", legend="given up"),
        ],
    ),
)

PIPELINE: Final = Dashboard(
    uid="kb-pipeline",
    title="2 Pipeline",
    question="Why does a changed document not appear in searches, and where do documents wait?",
    rows=[
        PanelRow(title="How late documents are", panels=LATE),
        PanelRow(title="What the indexers do", panels=WORK),
        PanelRow(title="Consumers of Kafka", panels=CONSUMERS),
        PanelRow(title="What was set aside", panels=SET_ASIDE),
    ],
)
