"""Asks the brokers now and then how large a message may be: an operator can change the topics while kb-api runs."""

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


async def keep_learning(settings: CommonSettings, limits: MessageLimits, stop: asyncio.Event) -> None:
    """Learn the limits every minute until `stop`; while Kafka is away those learnt last stay."""
    async with asyncio.TaskGroup() as tasks:
        learning = tasks.create_task(_learn_forever(settings, limits))
        await stop.wait()
        # Brokers that answer nothing must not keep the process.
        learning.cancel()


async def _learn_forever(settings: CommonSettings, limits: MessageLimits) -> Never:
    while True:
        await asyncio.sleep(_INTERVAL_S)
        try:
            report = await check_topics(settings.kafka_connection, TOPICS, prefix=settings.kafka_topic_prefix)
        except (TransientError, TopicsUnfit) as error:
            log.warning("message_limits.unknown", reason=str(error))
        else:
            limits.learn(report.max_message_bytes)
