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
_ROWS: Final = "services/kb-api/kb_api/webhooks/webhook_rows.py"
_QUEUE: Final = "services/kb-api/kb_api/webhooks/queue_deliveries.py"

_EVENTS: Final = "tests/integration/kb_api/test_events.py"
_WEBHOOKS: Final = "tests/integration/kb_api/test_webhooks.py"
_PAUSES: Final = "tests/integration/kb_api/test_webhook_pauses.py"
_OUTDATED: Final = "tests/integration/indexer/test_outdated_events.py"

MUTANTS: Final = (
    Mutant(
        "event-that-a-receiver-has-taken-fails-for-the-encoding-of-its-answer",
        "shared/kb_shared/providers/capped_answers.py",
        old="        stream = _Capped(",
        new='        if decode is _refuse:\n            next(decode(b""))\n        stream = _Capped(',
        caught_by=in_file(
            "tests/integration/kb_api/test_webhook_errors.py",
            "test_an_answer_is_told_by_its_status_and_a_missing_one_by_its_connection",
        ),
    ),
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
        _ROWS,
        old='unchanged = {**webhook.key.query(), "url": webhook.url}\n    disabled',
        new="unchanged = webhook.key.query()\n    disabled",
        caught_by=in_file(_WEBHOOKS, "test_an_answer_of_a_former_address_does_not_disable_a_webhook"),
    ),
    Mutant(
        "webhook-pauses-in-this-process-only",
        _DELIVER,
        old="if await webhook_rows.is_paused(self._database, webhook.key):",
        new="if False:",
        caught_by=in_file(
            _PAUSES, "test_a_process_in_the_middle_of_its_turn_stops_when_another_one_was_asked_for_a_pause"
        ),
    ),
    Mutant(
        "webhook-paused-by-its-former-address",
        _ROWS,
        old='unchanged = {**webhook.key.query(), "url": webhook.url}\n    changes',
        new="unchanged = webhook.key.query()\n    changes",
        caught_by=in_file(_PAUSES, "test_an_answer_of_a_former_address_pauses_nothing"),
    ),
    Mutant(
        "webhook-probed-by-all-processes-at-once",
        _ROWS,
        old='"probed_until": {"$not": {"$gt": began_at}}',
        new='"pauses": {"$gte": 0}',
        caught_by=in_file(
            _PAUSES,
            "test_after_a_pause_one_attempt_is_made_by_one_process_and_the_others_follow_once_it_is_taken",
        ),
    ),
    Mutant(
        "webhook-deliveries-given-up-in-a-pause",
        _DELIVER,
        old="        await deliveries.keep_through_pause(self._database, webhook.key, until=until)\n",
        new="",
        caught_by=in_file(_PAUSES, "test_no_event_is_given_up_while_its_receiver_pauses_or_right_afterwards"),
    ),
    Mutant(
        "webhook-deliveries-kept-for-ever-by-pauses",
        _DELIVERIES,
        old='prolonged = {"$max": ["$give_up_at", {"$min": [tried_until, latest]}]}',
        new='prolonged = {"$max": ["$give_up_at", tried_until]}',
        caught_by=in_file(_PAUSES, "test_a_receiver_that_always_asks_for_a_pause_keeps_no_event_for_ever"),
    ),
    Mutant(
        "webhook-errors-tell-private-names",
        "services/kb-api/kb_api/webhooks/attempt_errors.py",
        old="for each in causes) or _is_refused_address(error):",
        new="for each in causes):",
        caught_by=in_file(
            "tests/integration/kb_api/test_webhook_errors.py",
            "test_a_name_that_does_not_exist_is_told_as_one_that_is_private_to_this_network",
        ),
    ),
    Mutant(
        "outdated-events-announced-whenever-a-topic-is-read-again",
        "services/indexer/kb_indexer/outdated_events.py",
        old="return bool(times) and time >= times[0]",
        new="return True",
        caught_by=in_file(_OUTDATED, "test_a_topic_that_is_read_again_announces_nothing"),
    ),
    Mutant(
        "outdated-events-announced-each-time",
        "services/indexer/kb_indexer/outdated_events.py",
        old="return ObjectId(message_id), message",
        new="return ObjectId(), message",
        caught_by=in_file(
            _OUTDATED,
            "test_a_creation_after_a_deletion_with_a_greater_revision_is_announced_once_however_often_it_comes",
        ),
    ),
    Mutant(
        "outdated-content-by-revision-only",
        "shared/kb_shared/membership/outdated.py",
        old="if version.digest and stored > version:",
        new="if False:",
        caught_by=in_file(
            "tests/unit/kb_api/test_expected_effect.py",
            "test_what_is_reported_as_outdated_is_exactly_what_does_not_stay",
        ),
    ),
    Mutant(
        "accepted-content-forgotten",
        "services/kb-api/kb_api/document_revisions.py",
        old='if content["revision"] == greatest.facets.get(facet)',
        new="if False",
        caught_by=in_file(
            "tests/integration/kb_api/test_documents.py",
            "test_of_two_texts_with_the_same_revision_the_answer_says_which_one_stays",
        ),
    ),
    Mutant(
        "compressed-bodies-read-as-they-come",
        "shared/kb_shared/http/request_context.py",
        old="_refuse_coding(scope) if has_coded_body(headers) else self._app",
        new="self._app",
        caught_by=in_file("tests/unit/http/test_requests.py", "test_a_compressed_body_is_415_and_says_what_is_read"),
    ),
    Mutant(
        "webhook-gets-what-it-does-not-want",
        _QUEUE,
        old="if webhook.wanted.admits(event)",
        new="if True",
        caught_by=in_file(_WEBHOOKS, "test_events_that_a_webhook_wants_are_delivered_once_with_a_signature"),
    ),
)
