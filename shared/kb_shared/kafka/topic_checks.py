"""Checks topics against the requirements of the code. Pure: the descriptions by the brokers are arguments."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kb_contracts.topics import Topic
from kb_shared.errors import InfrastructureNotReady

MIN_INSYNC = "min.insync.replicas"
MAX_MESSAGE = "max.message.bytes"
SAFE_REPLICAS = 3
SAFE_MIN_INSYNC = 2


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """Topic as the brokers describe it."""

    partitions: int
    replicas: int
    """Number of replicas of the partition that has the fewest."""
    settings: Mapping[str, str]
    """Settings that the broker returns; empty if it has none for topics, or if we may not read them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem of a topic, with what an operator can do about it."""

    topic: str
    reason: str

    def __str__(self) -> str:
        return f"topic {self.topic!r} {self.reason}"


class TopicsUnfit(InfrastructureNotReady):
    """Topics that are missing or have too few partitions. An operator has to change that; check again later."""

    def __init__(self, findings: Collection[Finding]) -> None:
        super().__init__("; ".join(str(finding) for finding in findings))
        self.findings = tuple(findings)


def new_topic_settings(topic: Topic, *, replicas: int) -> dict[str, str]:
    """Return the settings that a topic is created with."""
    settings = {
        "retention.ms": str(int(topic.retention.total_seconds() * 1000)),
        MAX_MESSAGE: str(topic.max_message_bytes),
    }
    if replicas >= SAFE_REPLICAS:
        settings[MIN_INSYNC] = str(SAFE_MIN_INSYNC)
    return settings


def why_unfit(topics: Collection[Topic], found: Mapping[str, FoundTopic], *, prefix: str) -> list[Finding]:
    """Return the problems that prevent the services from working.

    Args:
        found: topics by name with `prefix`.
    """
    return [
        finding
        for topic in topics
        if (finding := _why_unfit(topic, found.get(prefix + topic.name), name=prefix + topic.name)) is not None
    ]


def _why_unfit(topic: Topic, found: FoundTopic | None, *, name: str) -> Finding | None:
    if found is None:
        return Finding(name, "is missing")
    if found.partitions < topic.partitions:
        return Finding(
            name,
            f"has {found.partitions} partitions instead of {topic.partitions}: add partitions, or delete the topic and "
            "create it again",
        )
    return None


def risks(
    topics: Collection[Topic], found: Mapping[str, FoundTopic], *, prefix: str, brokers: int
) -> Iterator[Finding]:
    """Yield the problems that an operator should know, but that the services can handle."""
    for topic in topics:
        name = prefix + topic.name
        for reason in _risks(topic, found[name], brokers=brokers):
            yield Finding(name, reason)


def _risks(topic: Topic, found: FoundTopic, *, brokers: int) -> Iterator[str]:
    if found.partitions > topic.partitions:
        yield (
            f"has {found.partitions} partitions instead of {topic.partitions}: "
            "messages of one key from before and after the change may be read out of order"
        )
    if found.replicas == 1 and brokers > 1:
        yield (
            f"has one replica although there are {brokers} brokers: nothing can be read or written while its broker "
            "is away, and its records are lost with its disk"
        )
    min_insync = _number(found, MIN_INSYNC)
    if min_insync is not None and found.replicas >= SAFE_REPLICAS and min_insync < SAFE_MIN_INSYNC:
        yield f"has {MIN_INSYNC}={min_insync}: set {SAFE_MIN_INSYNC}, or a message that one replica has can be lost"
    if min_insync is not None and min_insync >= found.replicas > 1:
        yield f"has {MIN_INSYNC}={min_insync} and {found.replicas} replicas: nothing can be written without one of them"
    max_message = _number(found, MAX_MESSAGE)
    if max_message is not None and max_message < topic.max_message_bytes:
        yield f"has {MAX_MESSAGE}={max_message} instead of {topic.max_message_bytes}: larger messages are refused"


def max_message_bytes(topics: Collection[Topic], found: Mapping[str, FoundTopic], *, prefix: str) -> dict[str, int]:
    """Return the size limit of messages by topic name without `prefix`, for topics with known settings."""
    return {
        topic.name: size for topic in topics if (size := _number(found[prefix + topic.name], MAX_MESSAGE)) is not None
    }


def _number(found: FoundTopic, setting: str) -> int | None:
    value = found.settings.get(setting)
    return None if value is None else int(value)
