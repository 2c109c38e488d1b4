from datetime import timedelta

import pytest

from kb_contracts.topics import Topic
from kb_shared.kafka.topic_checks import (
    MAX_MESSAGE,
    MIN_INSYNC,
    FoundTopic,
    max_message_bytes,
    new_topic_settings,
    risks,
    why_unfit,
)

EVENTS = Topic("events", partitions=12, retention=timedelta(days=14))
AS_IT_SHOULD_BE = {MIN_INSYNC: "2", MAX_MESSAGE: "1048576"}


def found(partitions: int = 12, replicas: int = 3, **settings: str) -> dict[str, FoundTopic]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"p.events": FoundTopic(partitions, replicas, AS_IT_SHOULD_BE | named)}


def reasons(topics: dict[str, FoundTopic], *, brokers: int = 3) -> list[str]:
    return [risk.reason for risk in risks([EVENTS], topics, prefix="p.", brokers=brokers)]


def test_too_few_partitions_and_a_missing_topic_are_unfit_and_more_partitions_are_not() -> None:
    assert [str(finding) for finding in why_unfit([EVENTS], {}, prefix="p.")] == ["topic 'p.events' is missing"]
    (finding,) = why_unfit([EVENTS], found(partitions=6), prefix="p.")
    assert finding.topic == "p.events"
    assert finding.reason.startswith("has 6 partitions instead of 12")
    assert why_unfit([EVENTS], found(partitions=24), prefix="p.") == []


@pytest.mark.parametrize(
    ("topics", "reason"),
    [
        (found(partitions=24), "has 24 partitions instead of 12"),
        (found(replicas=1), "has one replica although there are 3 brokers"),
        (found(min_insync_replicas="1"), "has min.insync.replicas=1: set 2"),
        (found(min_insync_replicas="3"), "has min.insync.replicas=3 and 3 replicas: nothing can be written"),
        (found(max_message_bytes="1000"), "has max.message.bytes=1000 instead of 1048576"),
    ],
)
def test_a_risky_setting_of_a_topic_is_reported(topics: dict[str, FoundTopic], reason: str) -> None:
    (risk,) = reasons(topics)
    assert risk.startswith(reason)


def test_topics_as_they_are_created_are_no_risk() -> None:
    assert reasons(found()) == []
    settings = new_topic_settings(EVENTS, replicas=1)
    assert reasons({"p.events": FoundTopic(12, 1, settings)}, brokers=1) == []


def test_a_broker_that_shows_no_settings_is_not_complained_about() -> None:
    silent = {"p.events": FoundTopic(12, 3, {})}
    assert reasons(silent) == []
    assert max_message_bytes([EVENTS], silent, prefix="p.") == {}
    assert max_message_bytes([EVENTS], found(max_message_bytes="1000"), prefix="p.") == {"events": 1000}


def test_three_replicas_are_created_with_two_that_must_be_in_sync() -> None:
    assert new_topic_settings(EVENTS, replicas=3)[MIN_INSYNC] == "2"
    assert MIN_INSYNC not in new_topic_settings(EVENTS, replicas=2)
