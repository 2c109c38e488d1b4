"""Mistakes in scalers and in what Prometheus scrapes."""

from typing import Final

from tests.deployment.kubernetes.planting import (
    MONITOR,
    SCALER,
    SEARCH,
    PlantedMistake,
    in_monitor,
    in_object,
    of_scaler,
    of_trigger,
    with_rule,
)

SCALING: Final = [
    PlantedMistake("renamed-topic", of_trigger(0, "topic", "document-event"), SCALER, "'document-event'"),
    PlantedMistake("topic-of-another-group", of_trigger(1, "topic", "document-events"), SCALER, "'document-events'"),
    PlantedMistake("renamed-group", of_trigger(0, "consumerGroup", "kb-fan-out"), SCALER, "'kb-fan-out'"),
    PlantedMistake(
        "other-brokers",
        of_trigger(0, "bootstrapServers", "kafka:9093"),
        SCALER,
        "bootstrapServers of document-events is kafka:9093",
    ),
    PlantedMistake(
        "renamed-metric", of_trigger(2, "query", "max(kb_queue_depth)"), SCALER, "kb_queue_depth is exported by no"
    ),
    PlantedMistake(
        "unknown-label", of_trigger(2, "query", 'max(kb_indexing_queue_depth{kb_id="1"})'), SCALER, "has no label kb_id"
    ),
    PlantedMistake(
        "unknown-job", of_trigger(2, "query", 'max(kb_indexing_queue_depth{job="indexer"})'), SCALER, "never indexer"
    ),
    PlantedMistake("no-query", of_trigger(2, "query", "max(kb_indexing_queue_depth"), SCALER, "is not PromQL"),
    PlantedMistake(
        "more-replicas-than-partitions",
        of_scaler(lambda spec: spec.update(maxReplicaCount=13)),
        SCALER,
        "maxReplicaCount is 13",
    ),
    PlantedMistake("scale-to-zero", of_scaler(lambda spec: spec.update(minReplicaCount=0)), SCALER, "0 to 12 replicas"),
    PlantedMistake(
        "no-credentials",
        of_scaler(lambda spec: spec["triggers"][0].pop("authenticationRef")),
        SCALER,
        "no credentials",
    ),
    PlantedMistake("keda-without-tls", of_trigger(0, "tls", "disable"), SCALER, "tls of document-events is disable"),
    PlantedMistake(
        "group-of-another-service",
        in_object(
            "ScaledObject",
            "kb-knowledge",
            lambda each: each["spec"]["triggers"][0]["metadata"].update(consumerGroup="kb-indexer-sync"),
        ),
        "ScaledObject kb-knowledge",
        "'kb-indexer-sync'",
    ),
    PlantedMistake(
        "unknown-target",
        of_scaler(lambda spec: spec["scaleTargetRef"].update(name="kb-reconcilier")),
        SCALER,
        "'kb-reconcilier'",
    ),
    PlantedMistake(
        "replicas-of-a-scaled-deployment",
        in_object("Deployment", "kb-search", lambda each: each["spec"].update(replicas=2)),
        SEARCH,
        "has a number of replicas",
    ),
    PlantedMistake(
        "two-scalers",
        in_object(
            "HorizontalPodAutoscaler", "kb-api", lambda each: each["spec"]["scaleTargetRef"].update(name="kb-search")
        ),
        SEARCH,
        "2 scalers",
    ),
    PlantedMistake(
        "range-of-replicas",
        in_object("HorizontalPodAutoscaler", "kb-api", lambda each: each["spec"].update(minReplicas=7)),
        "HorizontalPodAutoscaler kb-api",
        "minReplicas is above maxReplicas",
    ),
    PlantedMistake(
        "unknown-credentials",
        of_scaler(lambda spec: spec["triggers"][1]["authenticationRef"].update(name="kb-kafka-keda")),
        SCALER,
        "TriggerAuthentication 'kb-kafka-keda'",
    ),
]

MONITORING: Final = [
    PlantedMistake(
        "not-scraped",
        in_object(
            "ServiceMonitor",
            "knowledge-bases",
            lambda each: each["spec"]["selector"]["matchExpressions"][0]["values"].remove("kb-search"),
        ),
        "Service kb-search",
        "0 ServiceMonitors",
    ),
    PlantedMistake("path-of-metrics", in_monitor(path="/prometheus"), MONITOR, "it scrapes /prometheus"),
    PlantedMistake(
        "rule-of-its-own", with_rule("sum(up)"), "PrometheusRule knowledge-bases", "its groups are not those"
    ),
    PlantedMistake(
        "renamed-metric-in-rule",
        with_rule("rate(kb_search_request_total[5m])"),
        "PrometheusRule knowledge-bases",
        "kb_search_request_total is exported by no service",
    ),
    PlantedMistake(
        "unknown-bucket-label",
        with_rule('sum(rate(kb_search_seconds_bucket{phase="total",le="0.5"}[5m]))'),
        "PrometheusRule knowledge-bases",
        "kb_search_seconds_bucket has no label phase",
    ),
    PlantedMistake(
        "unknown-port-of-monitor",
        in_object("Service", "kb-reconciler", lambda each: each["spec"]["ports"][0].update(name="web")),
        "Service kb-reconciler",
        "port of ServiceMonitor knowledge-bases 'http'",
    ),
]
