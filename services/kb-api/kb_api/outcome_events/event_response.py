from kb_api.outcome_events.event_log import ListedEvent
from kb_contracts.api.events import OutcomeEventView
from kb_contracts.cloudevents import Envelope


def to_view(event: ListedEvent) -> OutcomeEventView:
    envelope = Envelope.model_validate_json(event.event)
    return OutcomeEventView(
        position=event.position,
        id=envelope.id,
        type=envelope.type,
        source=envelope.source,
        time=envelope.time,
        data=envelope.data,
    )
