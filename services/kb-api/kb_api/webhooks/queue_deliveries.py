"""Queues events for the webhooks that want them, in the transaction in which the events are listed."""

from collections.abc import Sequence

from kb_api.outcome_events.event_log import ListedEvent
from kb_api.outcome_events.event_response import to_view
from kb_api.webhooks import deliveries, webhook_rows
from kb_shared.mongo.database import Database, MongoSession


async def queue_deliveries(database: Database, session: MongoSession, events: Sequence[ListedEvent]) -> None:
    """Add a delivery for each event and each enabled webhook of its organization that wants it."""
    webhooks = await webhook_rows.find_enabled(database, session, {event.organization_id for event in events})
    wanted = []
    for event in events if webhooks else ():
        view = to_view(event)
        wanted += [
            (webhook, event, view.id, view.model_dump_json())
            for webhook in webhooks.get(event.organization_id, ())
            if webhook.wanted.admits(event)
        ]
    if wanted:
        await deliveries.add(database, session, wanted)
