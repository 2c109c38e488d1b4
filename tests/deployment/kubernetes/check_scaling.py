"""Checks what changes the number of replicas: HorizontalPodAutoscalers, and ScaledObjects with their triggers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from kb_indexer.bootstrap import TOPICS_OF_GROUPS as TOPICS_OF_INDEXER
from kb_knowledge.bootstrap import TOPICS_OF_GROUPS as TOPICS_OF_KNOWLEDGE
from tests.deployment.kubernetes.check_metrics import check_queries
from tests.deployment.kubernetes.manifests import Manifest, ManifestFinding, Manifests, check_each, place_of

_TOPICS_OF_GROUPS: Final = {"kb-indexer": TOPICS_OF_INDEXER, "kb-knowledge": TOPICS_OF_KNOWLEDGE}
"""By the name of the Deployment."""
_SCALERS: Final = ("HorizontalPodAutoscaler", "ScaledObject")
_SASL: Final = {
    "PLAIN": "plaintext",
    "SCRAM-SHA-256": "scram_sha256",
    "SCRAM-SHA-512": "scram_sha512",
    "OAUTHBEARER": "oauthbearer",
}
"""Names of KEDA by those of Kafka."""


def check_scaling(manifests: Manifests) -> Iterator[ManifestFinding]:
    scaled = Counter(_target(each) for kind in _SCALERS for each in manifests.of_kind(kind))
    deployments = {each["metadata"]["name"]: each for each in manifests.of_kind("Deployment")}
    for kind in _SCALERS:
        for scaler in manifests.of_kind(kind):
            yield from check_each([_target(scaler)], deployments, place=place_of(scaler), what="Deployment")
    for name, number in scaled.items():
        if number > 1:
            yield ManifestFinding(f"Deployment {name}", f"{number} scalers change its replicas", "one")
        if name in deployments and "replicas" in deployments[name]["spec"]:
            wrong = "it has a number of replicas, which every update would restore"
            yield ManifestFinding(f"Deployment {name}", wrong, "the number of its scaler")
    for scaler in manifests.of_kind("HorizontalPodAutoscaler"):
        spec = scaler["spec"]
        if spec["minReplicas"] > spec["maxReplicas"]:
            yield ManifestFinding(place_of(scaler), "minReplicas is above maxReplicas", "a range")
    for scaler in manifests.of_kind("ScaledObject"):
        yield from _check_scaled_object(manifests, scaler)


def _check_scaled_object(manifests: Manifests, scaler: Manifest) -> Iterator[ManifestFinding]:
    spec, place = scaler["spec"], place_of(scaler)
    if not 1 <= spec["minReplicaCount"] <= spec["maxReplicaCount"]:
        wrong = f"{spec['minReplicaCount']} to {spec['maxReplicaCount']} replicas"
        yield ManifestFinding(place, wrong, "a range from 1: each also has work that no trigger sees")
    workload = manifests.find_workload(_target(scaler))
    if workload is None:
        return
    settings = manifests.environment_of(workload)
    for trigger in spec["triggers"]:
        if trigger["type"] == "prometheus":
            yield from check_queries([trigger["metadata"]["query"]], place=place)
        if trigger["type"] == "kafka":
            yield from _check_credentials(manifests, trigger, place=place)
            yield from _check_connection(trigger["metadata"], settings, place=place)
            yield from _check_topic(scaler, trigger["metadata"], settings.get("KB_KAFKA_TOPIC_PREFIX", ""))


def _check_credentials(manifests: Manifests, trigger: Manifest, *, place: str) -> Iterator[ManifestFinding]:
    known = [each["metadata"]["name"] for each in manifests.of_kind("TriggerAuthentication")]
    if "authenticationRef" in trigger:
        yield from check_each([trigger["authenticationRef"]["name"]], known, place=place, what="TriggerAuthentication")
    elif known:
        yield ManifestFinding(place, f"trigger {trigger['name']} has no credentials", f"authenticationRef {known[0]}")


def _check_topic(scaler: Manifest, metadata: Mapping[str, str], prefix: str) -> Iterator[ManifestFinding]:
    spec, place = scaler["spec"], place_of(scaler)
    topics = _TOPICS_OF_GROUPS.get(_target(scaler), {})
    groups = {prefix + group: {prefix + topic.name: topic for topic in of} for group, of in topics.items()}
    group, name = metadata["consumerGroup"], metadata["topic"]
    if group not in groups or name not in groups[group]:
        yield from check_each([group], groups, place=place, what="consumer group")
        yield from check_each([name], groups.get(group, [name]), place=place, what=f"topic of {group}")
        return
    first, partitions = next((each, topic.partitions) for each, topic in groups[group].items())
    # The others of the group have as many.
    if name == first and spec["maxReplicaCount"] > partitions:
        yield ManifestFinding(
            place, f"maxReplicaCount is {spec['maxReplicaCount']}", f"at most {partitions}, as {name} has"
        )


def _check_connection(
    metadata: Mapping[str, str], settings: Mapping[str, str], *, place: str
) -> Iterator[ManifestFinding]:
    protocol = settings.get("KB_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    expected = {
        "bootstrapServers": settings.get("KB_KAFKA"),
        "tls": "enable" if protocol in {"SSL", "SASL_SSL"} else "disable",
        "sasl": _SASL[settings["KB_KAFKA_SASL_MECHANISM"]] if protocol.startswith("SASL") else "none",
    }
    found = {"tls": "disable", "sasl": "none"} | dict(metadata)
    for key, value in expected.items():
        if found[key] != value:
            yield ManifestFinding(
                place, f"{key} of {metadata['topic']} is {found[key]}", f"{value}, as the services have it"
            )


def _target(scaler: Manifest) -> str:
    return str(scaler["spec"]["scaleTargetRef"]["name"])
