"""Faults of what providers answer: calls, thoughts, ends, errors, links, options that a server refuses."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_ANSWERS: Final = "shared/kb_shared/chat/answers"
_FILTER: Final = f"{_ANSWERS}/text_filter.py"
_CALLS: Final = f"{_ANSWERS}/call_collector.py"
_READER: Final = f"{_ANSWERS}/answer_reader.py"
_SERVER: Final = "shared/kb_shared/providers/openai_server.py"
_ERRORS: Final = "shared/kb_shared/providers/provider_errors.py"
_OPTIONS: Final = "shared/kb_shared/providers/refused_options.py"
_OUTGOING: Final = "shared/kb_shared/chat/outgoing_messages.py"

_ADDRESSES: Final = "services/search/kb_search/runs/addresses.py"
_EXECUTION: Final = "services/search/kb_search/runs/run_execution.py"

_CHAT: Final = "tests/provider_matrix/test_chat_variations.py"
_REFUSED: Final = "tests/provider_matrix/test_refused_options.py"
_CONTEXT: Final = "tests/provider_matrix/test_context_limit.py"
_LITELLM: Final = "tests/provider_matrix/test_litellm_routes.py"
_TEMPLATES: Final = "tests/provider_matrix/test_chat_templates.py"
_MEANT: Final = "test_an_answer_means_what_its_provider_meant"

MUTANTS: Final = (
    Mutant(
        "calls-with-one-number-are-joined",
        _CALLS,
        old="        if before.is_complete:\n",
        new="        if False:\n",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "call-is-cut-at-each-new-id",
        _CALLS,
        old="        if not name or not before.name:\n            return False\n",
        new="",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "thoughts-are-shown",
        _FILTER,
        old="                self._end = _ENDS.get(kind)\n",
        new="                self._end = None\n",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "thoughts-without-beginning-are-the-answer",
        _FILTER,
        old="                self._forget()\n",
        new="",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "code-of-an-answer-loses-its-tags",
        _FILTER,
        old="        return is_in_span or (self._is_in_code ",
        new="        return False and (self._is_in_code ",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "rest-of-a-nested-thought-is-shown",
        _FILTER,
        old="            self._is_nested = True\n",
        new="            pass\n",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "character-behind-a-mark-is-not-waited-for",
        _FILTER,
        old="_AHEAD: Final = 2\n",
        new="_AHEAD: Final = 1\n",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "error-in-a-choice-is-an-empty-answer",
        _READER,
        old='            finish = "error"\n',
        new="            pass\n",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "bare-error-in-a-stream-ends-the-answer",
        _SERVER,
        old='    is_error |= "error" in ',
        new='    is_error |= "never" in ',
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "half-a-mark-is-passed-on",
        _FILTER,
        old="partial=not is_last)",
        new="partial=False)",
        caught_by=in_file(_CHAT, "test_an_answer_does_not_depend_on_where_it_is_cut"),
    ),
    Mutant(
        "answer-of-a-filter-is-complete",
        _READER,
        old="        if self._finish in _WITHHELD:\n",
        new="        if False:\n",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "stream-may-break-off",
        _READER,
        old="        if not self._finish and not self._is_done:\n",
        new="        if False:\n",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "web-page-is-an-outage",
        _ERRORS,
        old="        if self.incompatible is not None:\n",
        new="        if False:\n",
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "line-ends-within-json",
        _SERVER,
        old='        *whole, last = new.replace(b"\\r\\n", b"\\n").replace(b"\\r", b"\\n").split(b"\\n")\n',
        new='        *whole, last = new.replace("\\u2028".encode(), b"\\n").split(b"\\n")\n',
        caught_by=in_file(_CHAT, _MEANT),
    ),
    Mutant(
        "address-of-an-uncited-passage-is-a-link",
        _EXECUTION,
        old="        return KnownAddresses(given, of_passages)\n",
        new="        return KnownAddresses(given.union(*of_passages.values()))\n",
        caught_by=in_file(
            "tests/integration/runs/test_runs.py",
            "test_an_address_of_a_passage_that_the_answer_does_not_cite_is_no_link",
        )
        + in_file("tests/injection/test_injection.py", "test_no_link_and_no_image_leaves"),
    ),
    Mutant(
        "what-a-template-quotes-is-given",
        _EXECUTION,
        old="find_addresses([build(given)])",
        new="find_addresses([build(values)])",
        caught_by=in_file(
            "tests/integration/runs/test_injection.py",
            "test_an_address_of_a_template_is_a_link_and_one_of_a_passage_in_it_only_if_it_is_cited",
        ),
    ),
    Mutant(
        "address-is-streamed-before-its-citation",
        _ADDRESSES,
        old="            if self._links.needs_citation(address):\n",
        new="            if False:\n",
        caught_by=in_file(
            "tests/unit/runs/test_addresses.py",
            "test_an_answer_that_is_cut_anywhere_has_the_same_links_as_the_whole_one",
        ),
    ),
    Mutant(
        "powers-are-citations",
        "services/search/kb_search/runs/raised_numbers.py",
        old='behind is None or behind["measure"] is not None or ',
        new="behind is None or ",
        caught_by=in_file(
            "tests/unit/runs/test_marks.py", "test_brackets_that_are_part_of_the_text_stay_and_cite_nothing"
        ),
    ),
    Mutant(
        "names-in-brackets-are-citations",
        "services/search/kb_search/runs/mark_notation.py",
        old=" or citable.names_any(numbers)",
        new="",
        caught_by=in_file("tests/unit/runs/test_marks.py", "test_a_name_that_stands_in_a_passage_is_no_citation"),
    ),
    Mutant(
        "refused-option-is-sent-again",
        "shared/kb_shared/chat/provider.py",
        old="        self._habits.note_answer(model.fingerprint, without=refused)\n",
        new="",
        caught_by=in_file(_REFUSED, "test_an_option_is_left_out_after_its_refusal_and_then_at_once"),
    ),
    Mutant(
        "refused-option-is-remembered-for-ever",
        _OPTIONS,
        old="frozenset[str]] = BoundedCache(MAX_SERVERS, lifetime_s=REMEMBERED_S)",
        new="frozenset[str]] = BoundedCache(MAX_SERVERS)",
        caught_by=in_file(_REFUSED, "test_what_is_remembered_is_bounded_and_forgotten_after_a_while"),
    ),
    Mutant(
        "messages-of-the-user-stay-two",
        _OUTGOING,
        old='message["role"] in ("system", "user", "assistant")',
        new='message["role"] == "assistant"',
        caught_by=in_file(_TEMPLATES, "test_what_every_template_takes_is_sent_at_first"),
    ),
    Mutant(
        "a-call-that-is-wrongly-written-is-a-refusal-of-tools",
        "shared/kb_shared/providers/refused_options.py",
        old="    | UNUSABLE_ANSWER_CODES\n",
        new="",
        caught_by=in_file(_REFUSED, "test_what_a_model_wrote_wrongly_is_no_refusal_of_tools"),
    ),
    Mutant(
        "words-of-litellm-decide-what-an-error-in-a-stream-means",
        "shared/kb_shared/providers/quiet_litellm.py",
        old="(_answered_status, _status_of_body, _status_of_silence, _status_of_handler)",
        new="(_answered_status,)",
        caught_by=in_file(_LITELLM, "test_an_error_in_a_stream_means_what_its_code_says"),
    ),
    Mutant(
        "silence-of-a-provider-is-an-outage",
        "shared/kb_shared/providers/quiet_litellm.py",
        old="_status_of_body, _status_of_silence, ",
        new="_status_of_body, ",
        caught_by=in_file(_LITELLM, "test_silence_is_a_timeout_also_where_litellm_notices_it"),
    ),
    Mutant(
        "shorter-answer-is-asked-for-after-text-was-heard",
        "shared/kb_shared/chat/provider.py",
        old="                if listener is not None and listener.has_heard:\n",
        new="                if False:\n",
        caught_by=in_file(_CONTEXT, "test_nothing_is_asked_again_once_text_was_heard"),
    ),
    Mutant(
        "shorter-answer-is-asked-for-without-end",
        "shared/kb_shared/chat/provider.py",
        old="limit is not None and request is given and limit.leaves_room",
        new="limit is not None and limit.leaves_room",
        caught_by=in_file(_CONTEXT, "test_a_server_that_counts_more_each_time_is_asked_twice"),
    ),
    Mutant(
        "words-of-a-server-say-that-a-key-is-too-long",
        "shared/kb_shared/providers/context_limit.py",
        old="    if failure.meaning is not Meaning.BATCH or not (",
        new="    if not (",
        caught_by=in_file(_CONTEXT, "test_words_say_nothing_where_the_status_says_something_else"),
    ),
    Mutant(
        "broken-arguments-are-sent-back",
        _OUTGOING,
        old="    if is_object:\n",
        new="    if True:\n",
        caught_by=in_file(
            _TEMPLATES, "test_a_conversation_is_rendered_at_once_or_after_what_the_template_refuses_is_left_out"
        ),
    ),
    Mutant(
        "bad-answers-are-tried-ten-times",
        "services/indexer/kb_indexer/sync_failures.py",
        old="error, max_attempts=MAX_BAD_ANSWERS)\n            return\n",
        new="error)\n            return\n",
        caught_by=in_file(
            "tests/integration/indexer/test_jobs.py",
            "test_a_document_whose_vectors_are_wrong_three_times_is_given_up_with_the_reason_of_the_last",
        ),
    ),
    Mutant(
        "repetitions-open-the-circuit",
        "shared/kb_shared/providers/circuit_breaker.py",
        old="            if permission.is_circuit_probe or not (is_counted and is_outage(error)):\n",
        new="            if True:\n",
        caught_by=in_file(
            "tests/integration/chat/test_chat.py", "test_the_repetitions_of_one_call_count_once_for_the_circuit"
        ),
    ),
    Mutant(
        "stream-is-limited-as-a-whole",
        "shared/kb_shared/chat/provider.py",
        old="                if is_streamed:\n                    silence.end()\n",
        new="",
        caught_by=in_file(
            "tests/integration/chat/test_chat.py", "test_only_silence_ends_a_streamed_answer_that_takes_long"
        ),
    ),
)
