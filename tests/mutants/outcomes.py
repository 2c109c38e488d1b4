"""Faults of what tells clients without Kafka of outcomes: events and webhooks."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_LISTER: Final = "services/kb-api/kb_api/outcome_events/list_events.py"
_LOG: Final = "services/kb-api/kb_api/outcome_events/event_log.py"
_ROUTES: Final = "services/kb-api/kb_api/routes/events.py"
_STREAM: Final = "services/kb-api/kb_api/outcome_events/event_stream.py"
_DELIVERIES: Final = "services/kb-api/kb_api/webhooks/deliveries.py"
_DELIVER: Final = "services/kb-api/kb_api/webhooks/deliver.py"
_SENDER: Final = "services/kb-api/kb_api/webhooks/webhook_sender.py"
_QUEUE: Final = "services/kb-api/kb_api/webhooks/queue_deliveries.py"

_EVENTS: Final = "tests/integration/kb_api/test_events.py"
_WEBHOOKS: Final = "tests/integration/kb_api/test_webhooks.py"

MUTANTS: Final = (
    Mutant(
        "outcomes-listed-by-two-processes-twice",
        _LISTER,
        old="[each.id for each in found]) < len(found)",
        new="[each.id for each in found]) < 0",
        caught_by=in_file(_EVENTS, "test_processes_that_list_at_the_same_time_list_each_event_once"),
    ),
    Mutant(
        "outcomes-expired-without-notice",
        _LOG,
        old="if not rows or rows[0].position != after + 1:",
        new="if False:",
        caught_by=in_file(_EVENTS, "test_a_position_whose_events_are_not_kept_any_more_is_refused"),
    ),
    Mutant(
        "outcomes-of-other-knowledge-bases",
        _ROUTES,
        old="kb_ids=caller.kb_ids if chosen is None else chosen",
        new="kb_ids=chosen",
        caught_by=in_file(_EVENTS, "test_a_limited_key_gets_the_events_of_its_knowledge_bases_only"),
    ),
    Mutant(
        "outcomes-streamed-to-a-revoked-key",
        _STREAM,
        old="if monotonic() - checked_at >= HEARTBEAT_S:",
        new="if False:",
        caught_by=in_file(_EVENTS, "test_a_stream_ends_with_its_key_and_with_the_service"),
    ),
    Mutant(
        "webhook-claims-leave-deliveries-due",
        _DELIVERIES,
        old='{"$set": {"due_at": now + CLAIMED_FOR,',
        new='{"$set": {"due_at": now,',
        caught_by=in_file(_WEBHOOKS, "test_processes_that_deliver_at_the_same_time_deliver_each_event_once"),
    ),
    Mutant(
        "webhook-addresses-unchecked-when-connecting",
        _SENDER,
        old="transport=transport_to_named_addresses(private=allow_private)",
        new="transport=transport_to_named_addresses(private=True)",
        caught_by=in_file(_WEBHOOKS, "test_an_address_that_became_private_gets_nothing"),
    ),
    Mutant(
        "webhook-redirects-followed",
        _SENDER,
        old="follow_redirects=False",
        new="follow_redirects=True",
        caught_by=in_file(_WEBHOOKS, "test_a_delivery_is_tried_again_for_a_day_then_dead_and_can_be_repeated"),
    ),
    Mutant(
        "webhook-receivers-hold-up-others",
        _DELIVER,
        old="                self._slow.add(webhook.key)\n                return\n",
        new="                continue\n",
        caught_by=in_file(_WEBHOOKS, "test_receivers_that_do_not_answer_hold_up_no_other"),
    ),
    Mutant(
        "webhook-of-a-receiver-that-is-gone-stays-enabled",
        _DELIVER,
        old="is_gone = outcome.status == HTTPStatus.GONE and",
        new="is_gone = False and",
        caught_by=in_file(_WEBHOOKS, "test_a_receiver_that_is_gone_disables_its_webhook_until_it_is_enabled_again"),
    ),
    Mutant(
        "webhook-is-disabled-by-its-former-address",
        "services/kb-api/kb_api/webhooks/webhook_rows.py",
        old='unchanged = {**webhook.key.query(), "url": webhook.url}',
        new="unchanged = webhook.key.query()",
        caught_by=in_file(_WEBHOOKS, "test_an_answer_of_a_former_address_does_not_disable_a_webhook"),
    ),
    Mutant(
        "webhook-gets-what-it-does-not-want",
        _QUEUE,
        old="if webhook.wanted.admits(event)",
        new="if True",
        caught_by=in_file(_WEBHOOKS, "test_events_that_a_webhook_wants_are_delivered_once_with_a_signature"),
    ),
)
