from kb_contracts.topics import TOPICS
from kb_local.errors import UnusableServer
from kb_local.recovery import restore_after_broker_loss
from kb_shared.errors import KbError
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.mongo.database import connect
from kb_shared.settings import CommonSettings


async def create_topics(connection: KafkaConnection, *, prefix: str) -> None:
    """Create missing topics and check existing ones.

    Raises:
        UnusableServer: the broker does not answer, or has them with other partitions.
    """
    try:
        await ensure_topics(connection, TOPICS, prefix=prefix)
    except KbError as error:
        raise UnusableServer(
            str(error), remedy="check KB_KAFKA; give the stack topics of its own with KB_KAFKA_TOPIC_PREFIX"
        ) from error


async def resend_after_broker_loss(mongo_uri: str, *, database: str) -> None:
    """Send everything again that an empty broker has lost, from MongoDB."""
    opened = connect(CommonSettings(mongo_uri=mongo_uri, mongo_database=database))
    try:
        await restore_after_broker_loss(opened)
    finally:
        await opened.client.close()
