"""Recovery after the broker lost its messages: everything is in MongoDB."""

import structlog

from kb_shared.mongo import index_jobs, outbox
from kb_shared.mongo.database import Database

log = structlog.get_logger()


async def restore_after_broker_loss(database: Database) -> None:
    """Send the outbox of the last seven days again and make every open index job due.

    Call it after the topics exist and before any service produces.
    """
    messages = await outbox.send_again(database)
    jobs = await index_jobs.make_all_due(database)
    log.info("broker.recovered", messages=messages, jobs=jobs)
