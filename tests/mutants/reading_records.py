"""Faults of what reads batches of records and passes those that can't be read."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_FETCHED: Final = "shared/kb_shared/kafka_connection/fetched_batches.py"
_BATCHES: Final = "shared/kb_shared/kafka_connection/record_batches.py"
_RECORDS: Final = "shared/kb_shared/kafka_connection/batch_records.py"
_ASSIGNMENT: Final = "shared/kb_shared/kafka/partition_assignment.py"
_REDRIVE: Final = "services/kb-api/kb_api/redrive_dead_letter.py"

_TESTS: Final = "tests/unit/kafka_connection/test_fetched_batches.py"
_KNOWN: Final = "tests/unit/kafka_connection/test_known_batches.py"
_ASSIGNMENTS: Final = "tests/unit/kafka/test_partition_assignment.py"
_SESSIONS: Final = "tests/unit/kafka/test_session.py"
_SUBSCRIBER: Final = "tests/integration/kafka/test_event_subscriber.py"
_LETTERS: Final = "tests/integration/kb_api/test_dead_letters.py"

MUTANTS: Final = (
    Mutant(
        "damaged-batch-is-given-up-at-once",
        _FETCHED,
        old="if tries < self._tries and not error.is_as_written:",
        new="if False:",
        caught_by=in_file(_TESTS, "test_what_was_damaged_on_the_way_is_read_at_the_next_fetch"),
    ),
    Mutant(
        "damaged-batch-is-fetched-for-ever",
        _FETCHED,
        old="if tries < self._tries and not error.is_as_written:",
        new="if not error.is_as_written:",
        caught_by=in_file(_TESTS, "test_what_was_damaged_on_the_way_is_read_at_the_next_fetch"),
    ),
    Mutant(
        "damaged-batch-takes-the-following-with-it",
        _FETCHED,
        old="    return last if first <= last < fetched.end else first\n",
        new="    return fetched.end - 1\n",
        caught_by=in_file(_TESTS, "test_a_damaged_batch_behind_which_the_answer_ends_takes_no_other_with_it"),
    ),
    Mutant(
        "damaged-number-of-offsets-takes-the-following-with-it",
        _FETCHED,
        old="min(damaged.last_offset_delta, damaged.records - 1)",
        new="damaged.last_offset_delta",
        caught_by=in_file(_TESTS, "test_one_damaged_number_behind_which_the_answer_ends_takes_no_record_with_it"),
    ),
    Mutant(
        "first-offset-of-a-later-batch-skips-those-before-it",
        _FETCHED,
        old="    if batch.base_offset == position:\n",
        new="    if True:\n",
        caught_by=in_file(_TESTS, "test_a_first_offset_among_those_of_later_batches_skips_none_of_them"),
    ),
    Mutant(
        "batch-is-read-again-after-each-pause",
        _FETCHED,
        old="            if readable is batch.plain:\n",
        new="            if False:\n",
        caught_by=in_file(_TESTS, "test_a_batch_that_is_fetched_again_from_its_middle_is_read_once"),
    ),
    Mutant(
        "batches-of-any-size-are-kept",
        "shared/kb_shared/kafka_connection/known_batches.py",
        old="        if self._bytes + size > self._at_most_bytes:\n",
        new="        if False:\n",
        caught_by=in_file(_KNOWN, "test_no_more_bytes_are_kept_than_allowed"),
    ),
    Mutant(
        "bug-in-reading-stops-the-partition",
        _FETCHED,
        old="        except Exception as bug:\n",
        new="        except KeyError as bug:\n",
        caught_by=in_file(_TESTS, "test_a_bug_in_reading_stops_no_partition"),
    ),
    Mutant(
        "answer-of-any-size-is-decompressed",
        _FETCHED,
        old="                if size >= at_most_bytes:\n",
        new="                if False:\n",
        caught_by=in_file(_TESTS, "test_an_answer_is_cut_where_it_would_take_too_much_memory"),
    ),
    Mutant(
        "checksum-is-not-checked",
        _BATCHES,
        old="    if not has_checksum(raw, header):\n",
        new="    if False:\n",
        caught_by=in_file(_TESTS, "test_what_was_damaged_on_the_way_is_read_at_the_next_fetch"),
    ),
    Mutant(
        "header-name-of-any-bytes-costs-the-record",
        _RECORDS,
        old='errors="backslashreplace"',
        new='errors="strict"',
        caught_by=in_file(_TESTS, "test_a_header_name_that_is_not_utf8_costs_no_record"),
    ),
    Mutant(
        "any-number-of-headers-is-kept",
        _RECORDS,
        old="    if count > MAX_RECORD_HEADERS:\n",
        new="    if False:\n",
        caught_by=in_file(_TESTS, "test_a_record_with_more_headers_than_are_kept_is_set_aside_before_they_take_memory"),
    ),
    Mutant(
        "headers-of-many-records-fill-the-memory",
        _BATCHES,
        old="            if headers > MAX_BATCH_HEADERS:\n",
        new="            if False:\n",
        caught_by=in_file(_TESTS, "test_a_batch_with_too_many_headers_is_not_read_record_by_record"),
    ),
    Mutant(
        "headers-take-no-memory",
        "shared/kb_shared/kafka/record.py",
        old=" + _HEADER_OVERHEAD_BYTES",
        new="",
        caught_by=in_file(_TESTS, "test_headers_count_with_the_memory_that_they_take"),
    ),
    Mutant(
        "old-batch-is-read-for-ever",
        "shared/kb_shared/kafka_connection/old_batches.py",
        old="        _find_value(messages, magic, start=start, end=end)\n",
        new="",
        caught_by=in_file(_TESTS, "test_lengths_within_an_old_batch_are_not_followed"),
    ),
    Mutant(
        "old-batch-of-any-number-of-records",
        "shared/kb_shared/kafka_connection/old_batches.py",
        old="        if count > at_most_records:\n",
        new="        if False:\n",
        caught_by=in_file(_TESTS, "test_too_many_records_of_an_old_batch_are_not_read"),
    ),
    Mutant(
        "missing-records-are-not-missed",
        _BATCHES,
        old="    elif count < header.records:\n",
        new="    elif False:\n",
        caught_by=in_file(_TESTS, "test_records_that_a_batch_names_and_does_not_have_are_missed"),
    ),
    Mutant(
        "offsets-of-a-dead-letter-are-read-again",
        _ASSIGNMENT,
        old="                tracker.cover(record.offset, unreadable.last_offset)\n",
        new="",
        caught_by=in_file(
            _ASSIGNMENTS, "test_bytes_that_can_not_be_read_become_one_dead_letter_and_all_their_offsets_are_committed"
        ),
    ),
    Mutant(
        "fetch-begins-among-the-offsets-of-a-dead-letter",
        "shared/kb_shared/kafka/session.py",
        old="            self._positions.seek(partition, unreadable.last_offset + 1)\n",
        new="            pass\n",
        caught_by=in_file(
            _SESSIONS,
            "test_reading_goes_on_behind_bytes_that_can_not_be_read_whatever_is_paused_before_the_next_poll",
        ),
    ),
    Mutant(
        "bytes-that-are-found-again-free-the-records-before-them",
        _ASSIGNMENT,
        old="if unreadable and self.ledger.has_covered(",
        new="if False and self.ledger.has_covered(",
        caught_by=in_file(
            _ASSIGNMENTS, "test_bytes_that_are_found_again_by_a_fetch_among_their_offsets_free_no_record_before_them"
        ),
    ),
    Mutant(
        "bytes-of-a-new-log-are-taken-for-those-of-the-old-one",
        "shared/kb_shared/kafka/offsets.py",
        old="return self.next_offset == self._covered.stop and ",
        new="return ",
        caught_by=in_file(
            _ASSIGNMENTS, "test_bytes_of_a_log_that_was_created_again_are_not_taken_for_those_of_the_old_one"
        ),
    ),
    Mutant(
        "unreadable-bytes-are-sent-again-as-a-value",
        _REDRIVE,
        old="    if letter.reason != UNREADABLE_RECORD:\n",
        new="    if True:\n",
        caught_by=in_file(
            _LETTERS, "test_bytes_that_could_not_be_read_are_read_again_and_all_their_records_are_sent_in_order"
        ),
    ),
    Mutant(
        "library-reads-what-was-not-read-before",
        "shared/kb_shared/kafka_connection/clients.py",
        old="        if self.kb_fetched is not None and isinstance(request, FetchRequest):\n",
        new="        if False:\n",
        caught_by=in_file(
            _SUBSCRIBER, "test_bytes_that_can_not_be_read_are_passed_over_once_and_the_events_behind_them_come"
        ),
    ),
    Mutant(
        "subscriber-acknowledges-half-of-what-it-passes-over",
        "client/kb_client/subscriber.py",
        old="record.offset if unreadable is None else unreadable.last_offset",
        new="record.offset",
        caught_by=in_file(
            _SUBSCRIBER, "test_bytes_that_can_not_be_read_are_passed_over_once_and_the_events_behind_them_come"
        ),
    ),
)
