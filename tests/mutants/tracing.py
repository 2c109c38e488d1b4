"""Faults of what operators see: spans that quote documents, delay work or are not connected, and a metric."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_OBSERVABILITY: Final = "shared/kb_shared/observability"
_RECORDING: Final = f"{_OBSERVABILITY}/span_recording.py"
_EXPORT: Final = "tests/unit/test_span_export.py"
_MESSAGES: Final = "tests/unit/kafka/test_spans_of_messages.py"

MUTANTS: Final = (
    Mutant(
        "batches-are-in-the-trace-of-the-caller-that-sends-them",
        "shared/kb_shared/embedding/vector_buyer.py",
        old="with tracing.within(batch[0].span), _batch_span(batch, model):",
        new="with _batch_span(batch, model):",
        caught_by=in_file(
            "tests/unit/embedding/test_spans_of_batches.py",
            "test_a_batch_for_two_documents_is_in_the_trace_of_the_first_and_linked_to_the_other",
        ),
    ),
    Mutant(
        "spans-quote-the-message-of-an-error",
        _RECORDING,
        old="error if isinstance(error, str) else type(error).__name__",
        new="str(error)",
        caught_by=in_file(_EXPORT, "test_a_failed_span_names_the_class_of_the_error_and_quotes_nothing_of_it"),
    ),
    Mutant(
        "finished-spans-fill-the-memory",
        _RECORDING,
        old="if self._is_closing or len(self._queue) >= self._settings.max_queued:",
        new="if self._is_closing:",
        caught_by=in_file(_EXPORT, "test_neither_the_work_nor_its_end_waits_for_a_collector_that_does_not_answer"),
    ),
    Mutant(
        "the-end-of-a-process-waits-for-the-collector",
        _RECORDING,
        old="        self._thread.join(CLOSE_WITHIN_S)\n",
        new="        self._thread.join()\n",
        caught_by=in_file(_EXPORT, "test_neither_the_work_nor_its_end_waits_for_a_collector_that_does_not_answer"),
    ),
    Mutant(
        "spans-left-at-the-end-are-lost",
        _RECORDING,
        old="        self._thread.join(CLOSE_WITHIN_S)\n",
        new="",
        caught_by=in_file(
            _EXPORT, "test_spans_are_exported_with_their_tree_and_all_that_are_left_when_the_process_ends"
        ),
    ),
    Mutant(
        "traces-are-recorded-against-the-decision-of-the-caller",
        f"{_OBSERVABILITY}/sampling.py",
        old="if self.follows_caller and by_caller is not None:",
        new="if False:",
        caught_by=in_file(
            _EXPORT, "test_the_sampler_decides_where_a_trace_enters_the_process_and_the_rest_of_it_follows"
        ),
    ),
    Mutant(
        "messages-do-not-name-the-span-that-sent-them",
        "shared/kb_shared/kafka/send_spans.py",
        old="{**headers, HEADER: span.traceparent}",
        new="headers",
        caught_by=in_file(_MESSAGES, "test_a_message_names_the_span_that_sent_it_as_the_parent_of_what_handles_it"),
    ),
    Mutant(
        "records-begin-a-new-trace",
        "shared/kb_shared/kafka/attempts.py",
        old="incoming = _read_traceparent(item.record)",
        new="incoming = None",
        caught_by=in_file(_MESSAGES, "test_a_message_names_the_span_that_sent_it_as_the_parent_of_what_handles_it"),
    ),
    Mutant(
        "shared-requests-are-not-linked-to-the-other-documents",
        "shared/kb_shared/embedding/vector_buyer.py",
        old="links=[span for span in others if span is not None and span is not first]",
        new="links=[]",
        caught_by=in_file(
            "tests/unit/embedding/test_spans_of_batches.py",
            "test_a_batch_for_two_documents_is_in_the_trace_of_the_first_and_linked_to_the_other",
        ),
    ),
    Mutant(
        "failed-command-is-an-answer",
        "shared/kb_shared/mongo/last_answer.py",
        old="        pass\n\n    def failed(self, _: CommandFailedEvent) -> None:\n",
        new="        pass\n\n    def failed(self, _: CommandFailedEvent) -> None:\n        self._at = monotonic()\n",
        caught_by=in_file(
            "tests/integration/mongo/test_last_answer.py", "test_the_last_answer_is_of_a_command_that_succeeded"
        ),
    ),
)
