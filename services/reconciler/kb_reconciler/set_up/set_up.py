"""Creates what the services need before they start: topics, indexes, search indexes. Each step can be repeated."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pymongo.errors import OperationFailure

from kb_contracts.topics import TOPICS
from kb_reconciler.drift.search_index import repair_search_indexes
from kb_reconciler.indexes import COLLECTIONS
from kb_reconciler.migrations.migrate import Migrator
from kb_shared.errors import InfrastructureNotReady, TransientError
from kb_shared.kafka.topics import ensure_topics
from kb_shared.mongo import chunk_indexes, knowledge_bases, schema_version, search_indexes
from kb_shared.mongo import database as mongo
from kb_shared.mongo.chunk_indexes import IndexState
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.schema import create_indexes
from kb_shared.settings import CommonSettings

RETRY_S: Final = 1.0
_NOT_ALLOWED: Final = 13
Made = TypeVar("Made")


class SetUpFailed(Exception):
    """Part that could not be created. `str()` says which one, why, and what an operator can do."""


@dataclass(frozen=True, slots=True)
class ExistingParts:
    """Parts of a deployment that exist after a set-up."""

    topics: Sequence[str]
    topic_risks: Sequence[str]
    """Settings of topics with which messages can be lost, as sentences."""
    knowledge_bases: int
    building: Sequence[str]
    """Ids of the KBs whose search indexes exist and are not complete yet."""
    pending_migrations: Sequence[str]
    """Names of the migrations that the reconcilers have not made yet."""


async def set_up(
    settings: CommonSettings, *, within_s: float, migrations: bool = False, note: Callable[[str], None] = lambda _: None
) -> ExistingParts:
    """Create what is missing, and return when all of it exists.

    Args:
        settings: addresses and credentials. The principal of Kafka needs the right to create topics.
        within_s: how long to wait for servers that do not answer yet, and for what takes its time.
        migrations: whether to wait for migrations, too. Running reconcilers make them.
        note: called with the reason for each retry.

    Raises:
        SetUpFailed: something does not exist.
        Misconfigured: newer code has written the data.
    """
    database = mongo.connect(settings)
    waiting = _Patience(within_s, note)
    try:
        async with asyncio.timeout_at(waiting.end):
            waiting.reason = f"Kafka at {settings.kafka} does not answer"
            risks = await waiting.for_success(lambda: _create_topics(settings))
            waiting.reason = "MongoDB at KB_MONGO_URI does not answer"
            await waiting.for_success(lambda: _create_indexes(database))
            building = await waiting.for_success(lambda: _create_search_indexes(database))
            pending = await waiting.for_success(lambda: _find_pending(database, none_left=migrations))
            active = len(await waiting.for_success(lambda: knowledge_bases.find_active(database)))
    except TimeoutError:
        raise SetUpFailed(f"not within {within_s:g} s: {waiting.reason}") from None
    except InfrastructureNotReady as error:
        raise SetUpFailed(
            f"{error}. The Kafka principal of this command needs Create, Describe and DescribeConfigs on all topics"
            " (docs/how-to/kafka-permissions.md)"
        ) from error
    except OperationFailure as error:
        raise SetUpFailed(_describe_refusal(error)) from error
    finally:
        await database.client.close()
    topics = [settings.kafka_topic_prefix + topic.name for topic in TOPICS]
    return ExistingParts(topics, risks, active, building, pending)


class _Patience:
    """Repeats a step that may succeed later, and remembers why it did not."""

    def __init__(self, within_s: float, note: Callable[[str], None]) -> None:
        self.end = asyncio.get_running_loop().time() + within_s
        self.reason = ""
        self._note = note

    async def for_success(self, step: Callable[[], Awaitable[Made]]) -> Made:
        while True:
            try:
                with mongo_errors():
                    return await step()
            except TransientError as error:
                if str(error) != self.reason:
                    self.reason = str(error)
                    self._note(self.reason)
            await asyncio.sleep(RETRY_S)


async def _create_topics(settings: CommonSettings) -> list[str]:
    report = await ensure_topics(
        settings.kafka_connection,
        TOPICS,
        prefix=settings.kafka_topic_prefix,
        replication_factor=settings.kafka_replication_factor,
    )
    return [str(risk) for risk in report.risks]


async def _create_indexes(database: Database) -> None:
    """Create the indexes that the reconciler uses too; the others are created by the services that use them."""
    await schema_version.check(database)
    await create_indexes(database, COLLECTIONS)


async def _create_search_indexes(database: Database) -> list[str]:
    """Create the search indexes that KBs lack, as after a restore, and return the ids of the KBs that wait for them."""
    if (reason := await search_indexes.explain_unavailability(database)) is not None:
        raise TransientError(reason)
    await repair_search_indexes(database)
    states = {
        kb.kb_id: await chunk_indexes.read_state(database[kb.vector_collection], kb)
        for kb in await knowledge_bases.find_active(database)
    }
    if missing := [kb_id for kb_id, state in states.items() if state in (IndexState.MISSING, IndexState.FAILED)]:
        raise TransientError(f"search indexes of these knowledge bases could not be created: {', '.join(missing)}")
    return [kb_id for kb_id, state in states.items() if state is IndexState.BUILDING]


async def _find_pending(database: Database, *, none_left: bool) -> list[str]:
    pending = [each.name for each in await Migrator(database, owner="set-up").find_pending()]
    if pending and none_left:
        raise TransientError(
            f"these migrations are not finished: {', '.join(pending)}. A running reconciler makes them"
        )
    return pending


def _describe_refusal(error: OperationFailure) -> str:
    if error.code == _NOT_ALLOWED:
        return (
            "the user of KB_MONGO_URI lacks a right (code 13): docs/how-to/connect-to-mongodb.md lists those that it"
            " needs"
        )
    return f"MongoDB refuses a command ({type(error).__name__}, code {error.code})"
