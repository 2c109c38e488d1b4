"""Faults of what sends and what receives: outbox relay, consumer, offsets, dead letters."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_RELAY: Final = "shared/kb_shared/messaging/outbox_relay.py"
_OUTBOX: Final = "shared/kb_shared/mongo/outbox.py"
_COMMITS: Final = "shared/kb_shared/kafka/commits.py"
_OFFSETS: Final = "shared/kb_shared/kafka/offsets.py"
_POSITIONS: Final = "shared/kb_shared/kafka/positions.py"
_ASSIGNMENT: Final = "shared/kb_shared/kafka/partition_assignment.py"
_ATTEMPTS: Final = "shared/kb_shared/kafka/attempts.py"
_DEAD_LETTERS: Final = "shared/kb_shared/messaging/dead_letters.py"
_SCHEDULING: Final = "shared/kb_shared/kafka/scheduling.py"
_SHARED_HANDLING_TESTS: Final = "tests/unit/indexer/test_shared_handling.py"
_SHARED_HANDLING: Final = "services/indexer/kb_indexer/consumer/shared_handling.py"

_TESTS: Final = "tests/integration/indexer"
_UNIT: Final = "tests/unit/kafka"
_DEAD_LETTER_TESTS: Final = "tests/integration/kafka/test_dead_letters.py"
_ENTRIES: Final = "services/kb-api/kb_api/carry_out_entries.py"
_IDEMPOTENCY: Final = "tests/integration/kb_api/test_idempotency.py"

MUTANTS: Final = (
    Mutant(
        "refusal-is-announced-to-whom-a-text-names",
        "contracts/kb_contracts/event_forms.py",
        old="for name, value in each.items() if letters_of(name) in _CARRIERS]",
        new="for value in each.values()]",
        caught_by=in_file(
            _DEAD_LETTER_TESTS, "test_a_refusal_is_announced_to_no_organization_that_can_not_be_told_for_certain"
        ),
    ),
    Mutant(
        "refusal-is-announced-to-the-first-of-several-organizations",
        "contracts/kb_contracts/event_forms.py",
        old="return named[0][1] if all(owner == named[0][0] for owner, _ in named) else {}",
        new="return named[0][1]",
        caught_by=in_file(
            _DEAD_LETTER_TESTS, "test_a_refusal_is_announced_to_no_organization_that_can_not_be_told_for_certain"
        ),
    ),
    Mutant(
        "refusal-is-announced-for-the-document-of-the-key",
        _DEAD_LETTERS,
        old="in_key.document_id if content.key is None else content.document_id",
        new="in_key.document_id or content.document_id",
        caught_by=in_file(
            _DEAD_LETTER_TESTS, "test_a_rejection_is_announced_to_the_organization_that_key_or_content_names"
        ),
    ),
    Mutant(
        "relay-keeps-buckets-it-may-have-lost",
        _RELAY,
        old="                    self._buckets = []\n",
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_outbox_relay.py", "test_a_relay_that_is_not_sure_of_its_leases_sends_nothing"
        ),
    ),
    Mutant(
        "relay-keeps-buckets-it-can-not-serve",
        _RELAY,
        old="+ _AFTER_FAILURE_S\n            await self._release()\n",
        new="+ _AFTER_FAILURE_S\n",
        caught_by=in_file(
            f"{_TESTS}/test_outbox_relay.py", "test_a_relay_that_can_not_send_leaves_its_buckets_to_another_at_once"
        ),
    ),
    Mutant(
        "relay-marks-what-overtook-a-failure",
        _RELAY,
        old="elif outcome is None and message.ordering not in held_up:",
        new="elif outcome is None:",
        caught_by=in_file(
            f"{_TESTS}/test_unsendable.py",
            "test_a_message_held_back_by_a_failure_is_sent_again_with_the_later_ones_of_its_ordering",
        ),
    ),
    Mutant(
        "relay-does-not-release-at-its-end",
        _RELAY,
        old="return_exceptions=True)\n            await self._release()\n",
        new="return_exceptions=True)\n",
        caught_by=in_file(
            f"{_TESTS}/test_outbox_relay.py",
            "test_two_relays_share_the_buckets_and_one_takes_over_what_the_other_leaves",
        ),
    ),
    Mutant(
        "outbox-reads-what-a-failover-can-take-back",
        _OUTBOX,
        old='        .with_options(read_concern=MAJORITY)\n        .find({"bucket"',
        new='        .find({"bucket"',
        caught_by=in_file(f"{_TESTS}/test_outbox_relay.py", "test_only_what_a_majority_has_is_sent")
        + in_file(f"{_TESTS}/test_unsendable.py", "test_only_what_a_majority_has_is_read_to_be_published"),
    ),
    Mutant(
        "outbox-sets-aside-what-is-sent",
        _OUTBOX,
        old='{"_id": message_id, "sent_at": None},\n        {\n            "$set"',
        new='{"_id": message_id},\n        {\n            "$set"',
        caught_by=in_file(
            f"{_TESTS}/test_unsendable.py", "test_a_message_refused_for_two_relays_is_announced_and_counted_once"
        ),
    ),
    Mutant(
        "leases-are-taken-from-their-owners",
        "shared/kb_shared/mongo/leases.py",
        old='"$or": [{"owner": owner}, {"$expr": {"$lt": ["$until", "$$NOW"]}}]',
        new='"owner": {"$exists": True}',
        caught_by=in_file(
            "tests/integration/mongo/test_leases.py",
            "test_of_several_leases_each_is_taken_that_no_other_owner_has",
        ),
    ),
    Mutant(
        "lease-is-taken-from-its-owner",
        "shared/kb_shared/mongo/leases.py",
        old='            {"$lt": ["$until", "$$NOW"]},\n        ]',
        new="            True,\n        ]",
        caught_by=in_file(
            "tests/integration/kb_api/test_life_cycle.py",
            "test_a_knowledge_base_is_left_alone_while_another_replica_has_its_lease",
        ),
    ),
    Mutant(
        "commit-goes-on-after-the-membership",
        _COMMITS,
        old="if (coordinator.generation, coordinator.member_id) != generation:",
        new="if False:",
        caught_by=in_file(f"{_UNIT}/test_positions.py", "test_a_commit_is_not_tried_again_once_the_membership_is_lost"),
    ),
    Mutant(
        "commit-without-a-membership",
        _COMMITS,
        old="        if not self._is_member():\n            return False\n",
        new="",
        caught_by=in_file(f"{_UNIT}/test_positions.py", "test_nothing_is_committed_without_a_membership"),
    ),
    Mutant(
        "commit-counts-though-it-was-refused",
        _ASSIGNMENT,
        old="            if await self._commit(offsets):\n                self.ledger.mark_committed(offsets)",
        new="            await self._commit(offsets)\n            self.ledger.mark_committed(offsets)",
        caught_by=in_file(f"{_UNIT}/test_partition_assignment.py", "test_a_refused_commit_is_tried_again"),
    ),
    Mutant(
        "commit-passes-unfinished-records",
        _OFFSETS,
        old="return self.next_offset if first is None else first.offset",
        new="return self.next_offset",
        caught_by=in_file(
            f"{_UNIT}/test_offsets.py",
            "test_the_committed_offset_never_passes_an_unfinished_record_and_loses_no_finished_one",
        ),
    ),
    Mutant(
        "offsets-of-a-new-log-count-for-the-old-one",
        _OFFSETS,
        old="if tracker is None or offset < tracker.next_offset:",
        new="if tracker is None:",
        caught_by=in_file(f"{_UNIT}/test_offsets.py", "test_a_log_that_starts_again_from_zero_is_counted_again"),
    ),
    Mutant(
        "positions-trust-offsets-of-another-log",
        _POSITIONS,
        old='            return mark != f"{_ID_MARK}{now}"',
        new="            return False",
        caught_by=in_file(
            f"{_UNIT}/test_positions.py",
            "test_the_consumer_does_not_continue_from_an_offset_of_a_topic_with_another_id",
        ),
    ),
    Mutant(
        "positions-trust-a-topic-without-offsets",
        _POSITIONS,
        old="for each, mark in marks.items() if",
        new="for each, mark in marks.items() if each in committed and",
        caught_by=in_file(
            f"{_UNIT}/test_positions.py",
            "test_a_topic_that_was_created_again_has_lost_records_also_if_its_offsets_were_deleted_with_it",
        ),
    ),
    Mutant(
        "positions-forget-topics-with-the-session",
        "shared/kb_shared/kafka/consumer.py",
        old="topic_ids=self._topic_ids",
        new="topic_ids={}",
        caught_by=in_file(f"{_UNIT}/test_session.py", "test_the_ids_of_topics_outlive_a_session"),
    ),
    Mutant(
        "positions-skip-without-dealing-with-the-loss",
        _POSITIONS,
        old="            await self._on_lost(topic)\n",
        new="            pass\n",
        caught_by=in_file(
            f"{_UNIT}/test_positions.py", "test_offsets_are_not_counted_as_skipped_before_the_loss_is_dealt_with"
        ),
    ),
    Mutant(
        "assignment-starts-work-while-it-closes",
        _ASSIGNMENT,
        old="while self.open and (items := scheduler.start_next()):",
        new="while items := scheduler.start_next():",
        caught_by=in_file(
            f"{_UNIT}/test_partition_assignment.py",
            "test_work_that_ends_while_the_assignment_is_closed_counts_and_what_waits_does_not_start",
        ),
    ),
    Mutant(
        "assignment-does-not-wait-for-what-runs",
        _ASSIGNMENT,
        old="            await asyncio.wait(self._running, timeout=drain_s)\n",
        new="            pass\n",
        caught_by=in_file(
            f"{_UNIT}/test_partition_assignment.py",
            "test_work_that_ends_while_the_assignment_is_closed_counts_and_what_waits_does_not_start",
        ),
    ),
    Mutant(
        "attempt-drops-unusable-record",
        _ATTEMPTS,
        old=(
            "        await self._dead_letters.publish("
            "record, reason=dead_letter_reason.reason, detail=dead_letter_reason.detail)\n"
        ),
        new="",
        caught_by=in_file(
            f"{_UNIT}/test_attempts.py",
            "test_an_unusable_record_goes_to_the_dead_letters_with_its_reason",
            "test_a_record_is_not_done_with_before_the_dead_letters_have_it",
        ),
    ),
    Mutant(
        "attempt-tells-the-words-of-a-bug",
        _ATTEMPTS,
        old='DeadLetterReason("internal_error", type(error).__name__)',
        new='DeadLetterReason("internal_error", str(error))',
        caught_by=in_file(
            f"{_UNIT}/test_attempts.py", "test_a_bug_is_tried_three_times_and_its_text_reaches_neither_letters_nor_logs"
        ),
    ),
    Mutant(
        "bundle-that-failed-is-tried-as-one-again",
        _SCHEDULING,
        old="replace(entry, is_alone=True) for entry",
        new="entry for entry",
        caught_by=(
            *in_file(f"{_UNIT}/test_scheduling.py", "test_the_items_of_a_bundle_that_failed_are_tried_one_by_one"),
            *in_file(
                f"{_UNIT}/test_partition_assignment.py",
                "test_a_bug_that_a_record_causes_in_a_bundle_costs_no_other_record_of_it",
            ),
        ),
    ),
    Mutant(
        "bundle-is-finished-with-its-first-success",
        _ASSIGNMENT,
        old="            bundle.unfinished.append(item)\n",
        new="            item.tracker.finish(item.record.offset)\n",
        caught_by=in_file(
            f"{_UNIT}/test_partition_assignment.py",
            "test_a_record_of_a_bundle_is_not_finished_by_the_success_of_the_others",
        ),
    ),
    Mutant(
        "record-is-finished-before-the-dead-letters-have-it",
        _ASSIGNMENT,
        old="            self._dead_letters.add(item, item.ordering_key, size_bytes=item.record.size_bytes)\n",
        new=(
            "            item.tracker.finish(item.record.offset)\n"
            "            self._dead_letters.add(item, item.ordering_key, size_bytes=item.record.size_bytes)\n"
        ),
        caught_by=in_file(
            f"{_UNIT}/test_partition_assignment.py",
            "test_records_that_wait_for_the_dead_letters_hold_no_slot_and_delay_no_record_of_their_ordering_key",
        ),
    ),
    Mutant(
        "dead-letters-use-the-slots-of-the-handler",
        _ASSIGNMENT,
        old="if item.dead_letter_reason is not None and bundle.scheduler is self._scheduler:",
        new="if False:",
        caught_by=in_file(
            f"{_UNIT}/test_partition_assignment.py",
            "test_records_that_wait_for_the_dead_letters_hold_no_slot_and_delay_no_record_of_their_ordering_key",
        ),
    ),
    Mutant(
        "memory-is-counted-without-what-a-record-costs",
        _ASSIGNMENT,
        old="held_bytes=size_bytes + RECORD_OVERHEAD_BYTES",
        new="held_bytes=size_bytes",
        caught_by=in_file(f"{_UNIT}/test_partition_assignment.py", "test_many_small_records_fill_the_memory_too"),
    ),
    Mutant(
        "shared-handling-takes-a-failure-for-success",
        _SHARED_HANDLING,
        old="failures = dict.fromkeys(items, error)",
        new="failures = {}",
        caught_by=(
            *in_file(
                "tests/unit/indexer/test_shared_handling.py",
                "test_what_the_handling_raises_reaches_all_who_wait_for_it",
            ),
            *in_file(f"{_TESTS}/test_bundles.py", "test_a_bundle_that_is_interrupted_handles_none_of_its_events"),
        ),
    ),
    Mutant(
        "shared-handling-finishes-what-came-too-late",
        _SHARED_HANDLING,
        old="self._run(self._waiting.pop(key))",
        new="self._run(self._waiting[key])",
        caught_by=in_file(_SHARED_HANDLING_TESTS, "test_an_item_that_comes_while_others_are_handled_is_not_among_them"),
    ),
    Mutant(
        "batch-of-writes-fails-as-a-whole",
        "shared/kb_shared/concurrency/batch_writer.py",
        old="            if len(items) == 1:\n                raise\n",
        new="            raise\n",
        caught_by=(
            *in_file("tests/unit/test_batch_writer.py", "test_an_item_that_can_not_be_written_fails_alone"),
            *in_file(
                "tests/integration/kafka/test_dead_letters.py",
                "test_a_dead_letter_that_can_not_be_stored_holds_up_no_other",
            ),
        ),
    ),
    Mutant(
        "scheduling-runs-a-place-beside-itself",
        _SCHEDULING,
        old="if len(queue) == 1 and ordering_key not in self._running:",
        new="if len(queue) == 1:",
        caught_by=in_file(
            f"{_UNIT}/test_scheduling.py",
            "test_an_item_waits_until_the_one_before_it_with_its_ordering_key_has_finished",
        ),
    ),
    Mutant(
        "scheduling-gives-one-group-every-slot",
        _SCHEDULING,
        old="return self._running_of_group[organization_id, group] < share",
        new="return True",
        caught_by=in_file(
            f"{_UNIT}/test_scheduling.py", "test_the_busiest_group_leaves_slots_for_others_of_its_organization"
        ),
    ),
    Mutant(
        "scheduling-ignores-the-limit",
        _SCHEDULING,
        old="if len(self._running) >= self._slots:",
        new="if len(self._running) >= self._max_in_flight:",
        caught_by=in_file(
            f"{_UNIT}/test_scheduling.py",
            "test_items_beyond_a_lowered_limit_go_on_and_no_other_begins_until_a_slot_is_free",
        ),
    ),
    Mutant(
        "scheduling-gives-one-organization-every-slot",
        _SCHEDULING,
        old="return held == 0 or held + 1 <= SLOTS_FOR_EACH_FREE_ONE * (free - 1)",
        new="return True",
        caught_by=in_file(
            f"{_UNIT}/test_scheduling.py", "test_the_groups_of_an_organization_together_leave_slots_for_another"
        ),
    ),
    Mutant(
        "backpressure-lets-a-replay-grow",
        "shared/kb_shared/kafka/backpressure.py",
        old="if self._gate(partition).update(replay_windows.get(partition, 0)) or full",
        new="if full",
        caught_by=in_file(
            f"{_UNIT}/test_backpressure.py", "test_a_partition_whose_oldest_record_does_not_end_is_held_back_alone"
        ),
    ),
    Mutant(
        "dead-letter-belongs-to-its-key-or-its-body",
        _DEAD_LETTERS,
        old="if len(organizations) != 1:",
        new="if not organizations:",
        caught_by=in_file("tests/unit/dead_letters/test_find_owner.py", "test_whose_a_record_is"),
    ),
    Mutant(
        "record-with-neither-key-nor-value-can-not-be-sent",
        "shared/kb_shared/kafka/producer.py",
        old="value = _NO_VALUE if message.key is None and message.value is None else message.value",
        new="value = message.value",
        caught_by=in_file(
            "tests/integration/kafka/test_producer_and_topics.py",
            "test_a_message_with_neither_key_nor_value_arrives_as_it_is",
        ),
    ),
    Mutant(
        "message-that-can-not-be-sent-ends-the-sender",
        "shared/kb_shared/kafka/producer.py",
        old="except (AssertionError, TypeError, ValueError) as error:",
        new="except KeyError as error:",
        caught_by=in_file(
            "tests/integration/kafka/test_producer_and_topics.py",
            "test_what_the_client_library_can_not_send_is_refused_and_the_next_message_is_sent",
        ),
    ),
    Mutant(
        "refusal-is-announced-by-its-key-alone",
        _DEAD_LETTERS,
        old="            owner = Owner(letter.organization_id, letter.document_id)\n",
        new="            return\n",
        caught_by=in_file(
            _DEAD_LETTER_TESTS, "test_a_rejection_is_announced_to_the_organization_that_key_or_content_names"
        ),
    ),
    Mutant(
        "dead-letter-of-an-organization-that-does-not-exist",
        _DEAD_LETTERS,
        old="return owner if await self._organizations.is_known(owner.organization_id) else NO_OWNER",
        new="return owner",
        caught_by=in_file(
            _DEAD_LETTER_TESTS,
            "test_a_record_of_an_organization_that_does_not_exist_is_shown_to_the_operator_alone",
        ),
    ),
    Mutant(
        "event-makes-an-organization",
        "services/indexer/kb_indexer/fan_out.py",
        old="is_known = await self._organizations.is_known(organization_id)",
        new="is_known = True",
        caught_by=in_file(
            f"{_TESTS}/test_unknown_organizations.py",
            "test_an_event_of_an_unknown_organization_is_refused_and_stores_nothing",
        ),
    ),
    Mutant(
        "key-of-another-document-is-accepted",
        "services/indexer/kb_indexer/consumer/record_keys.py",
        old="if named == NO_OWNER or named.key == key:",
        new="if True:",
        caught_by=in_file(
            f"{_TESTS}/test_record_keys.py",
            "test_an_event_whose_key_names_another_document_is_rejected_and_changes_nothing",
        ),
    ),
    Mutant(
        "events-without-a-key-wait-for-nothing",
        "services/indexer/kb_indexer/consumer/record_keys.py",
        old="owner = read_content(record.value, record.headers) if named == NO_OWNER else named",
        new="owner = named",
        caught_by=in_file(
            f"{_TESTS}/test_record_keys.py",
            "test_events_of_one_document_wait_for_each_other_whatever_their_keys_are",
        ),
    ),
    Mutant(
        "binary-mode-is-not-read",
        "contracts/kb_contracts/event_forms.py",
        old="        if attributes:\n            return",
        new="        if False:\n            return",
        caught_by=in_file("tests/unit/contracts/test_event_forms.py", "test_an_event_is_the_same_in_each_form"),
    ),
    Mutant(
        "trace-that-can-not-be-read-ends-the-consumer",
        _ATTEMPTS,
        old="    except Exception:\n        # A bug, but what",
        new="    except KeyError:\n        # A bug, but what",
        caught_by=in_file(f"{_UNIT}/test_attempts.py", "test_a_trace_that_can_not_be_read_does_not_end_the_consumer"),
    ),
    Mutant(
        "null-header-of-a-redrive-stops-the-dead-letter",
        "shared/kb_shared/messaging/dead_letters.py",
        old="if name == REDRIVEN_FROM and value)",
        new="if name == REDRIVEN_FROM)",
        caught_by=in_file(
            "tests/integration/kb_api/test_dead_letters.py", "test_w10_a_letter_is_sent_again_as_it_came_and_once"
        ),
    ),
    Mutant(
        "refusal-is-announced-again-after-a-crash",
        _DEAD_LETTERS,
        old="ObjectId(letter.letter_id[:_OBJECT_ID_DIGITS])",
        new="ObjectId()",
        caught_by=in_file(
            _DEAD_LETTER_TESTS, "test_dead_letters_that_come_together_are_stored_and_announced_together_each_once"
        ),
    ),
    Mutant(
        "batch-that-is-taken-over-begins-again",
        _ENTRIES,
        old="if (known := find_outcome(position)) is not None:",
        new="if (known := find_outcome(-1)) is not None:",
        caught_by=in_file(
            _IDEMPOTENCY,
            "test_a_batch_whose_key_was_taken_over_stops_and_publishes_nothing_twice",
            "test_a_batch_that_was_interrupted_is_continued_by_the_request_that_repeats_it",
        ),
    ),
    Mutant(
        "batch-goes-on-without-its-key",
        _ENTRIES,
        old="if error.slug == KEY_IN_USE:",
        new="if False:",
        caught_by=in_file(_IDEMPOTENCY, "test_a_batch_whose_key_was_taken_over_stops_and_publishes_nothing_twice"),
    ),
    Mutant(
        "batch-that-fails-forgets-what-it-did",
        "shared/kb_shared/mongo/idempotency_keys.py",
        old='"answer": None, "outcomes": None}',
        new='"answer": None}',
        caught_by=in_file(
            _IDEMPOTENCY, "test_a_batch_that_was_interrupted_is_continued_by_the_request_that_repeats_it"
        ),
    ),
)
