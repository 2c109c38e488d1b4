"""Reads the size limits of messages from the brokers regularly: an operator may change the topics while kb-api runs."""

import asyncio
from typing import Final, Never

import structlog

from kb_api.message_limits import MessageLimits
from kb_contracts.topics import TOPICS
from kb_shared.errors import TransientError
from kb_shared.kafka.topic_checks import TopicsUnfit
from kb_shared.kafka.topics import check_topics
from kb_shared.settings import CommonSettings

_INTERVAL_S: Final = 60.0

log = structlog.get_logger()


async def refresh_message_limits(settings: CommonSettings, limits: MessageLimits, stop: asyncio.Event) -> None:
    """Read the limits every minute until `stop`. While Kafka is unavailable the last known ones apply."""
    async with asyncio.TaskGroup() as tasks:
        refreshing = tasks.create_task(_refresh_forever(settings, limits))
        await stop.wait()
        # Brokers that do not answer must not keep the process from stopping.
        refreshing.cancel()


async def _refresh_forever(settings: CommonSettings, limits: MessageLimits) -> Never:
    while True:
        await asyncio.sleep(_INTERVAL_S)
        try:
            report = await check_topics(settings.kafka_connection, TOPICS, prefix=settings.kafka_topic_prefix)
        except (TransientError, TopicsUnfit) as error:
            log.warning("message_limits.unknown", reason=str(error))
        else:
            limits.set_broker_limits(report.max_message_bytes)
