"""Mistakes that a schema finds."""

from typing import Final

from tests.deployment.kubernetes.planting import (
    API,
    MONITOR,
    SCALER,
    PlantedMistake,
    in_container,
    in_monitor,
    in_object,
    of_scaler,
)

SCHEMAS: Final = [
    PlantedMistake(
        "unknown-key", in_container("kb-api", lambda each: each.update(livenesProbe={})), API, "livenesProbe"
    ),
    PlantedMistake(
        "wrong-type",
        in_object("Deployment", "kb-reconciler", lambda each: each["spec"].update(replicas="two")),
        "Deployment kb-reconciler",
        "'two'",
    ),
    PlantedMistake(
        "unknown-kind",
        in_object("Deployment", "kb-reconciler", lambda each: each.update(apiVersion="apps/v1beta9")),
        "Deployment kb-reconciler",
        "apps/v1beta9",
    ),
    PlantedMistake(
        "typo-in-scaled-object", of_scaler(lambda spec: spec.update(maxReplicaCont=3)), SCALER, "spec.maxReplicaCont"
    ),
    PlantedMistake(
        "wrong-type-in-scaled-object",
        of_scaler(lambda spec: spec.update(pollingInterval="soon")),
        SCALER,
        "spec.pollingInterval",
    ),
    PlantedMistake("typo-in-service-monitor", in_monitor(intervall="5s"), MONITOR, "intervall"),
    PlantedMistake(
        "typo-in-trigger-authentication",
        in_object(
            "TriggerAuthentication", "kb-kafka", lambda each: each["spec"]["secretTargetRef"][0].update(keyy="x")
        ),
        "TriggerAuthentication kb-kafka",
        "keyy",
    ),
]
