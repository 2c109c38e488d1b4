"""Faults of limits that count work: what steps, bytes and counts decide must not be decided by time, or not at all."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_SCHEMA: Final = "services/search/kb_search/runs/answer_schema.py"
_SCHEMA_TESTS: Final = "tests/unit/runs/test_answer_schema.py"
_FILES: Final = "client/kb_client/files"
_HOSTILE: Final = "tests/unit/client/files/test_hostile_files.py"
_REPEATED: Final = in_file(_SCHEMA_TESTS, "test_what_a_schema_repeats_is_refused_if_it_is_large")
_ANSWERS: Final = in_file(_SCHEMA_TESTS, "test_an_answer_is_checked_with_few_calls_whatever_the_schema")

MUTANTS: Final = (
    Mutant(
        "schemas-are-checked-for-half-a-second",
        _SCHEMA,
        old="MAX_CPU_S: Final = 30.0",
        new="MAX_CPU_S: Final = 0.5",
        caught_by=in_file(
            _SCHEMA_TESTS, "test_a_machine_that_is_twenty_times_slower_takes_the_same_schemas_and_answers"
        ),
    ),
    Mutant(
        "schema-check-has-no-brake",
        _SCHEMA,
        old="if self._steps_left < 0 or time.thread_time() > self._ends_at_cpu_s:",
        new="if self._steps_left < 0:",
        caught_by=in_file(_SCHEMA_TESTS, "test_a_check_whose_steps_take_far_too_long_ends"),
    ),
    Mutant(
        "long-references-cost-as-much-as-short-ones",
        _SCHEMA,
        old='STEPS_OF_REFERENCE + value.count("/") ** 2 // SEGMENT_PAIRS_OF_STEP',
        new="STEPS_OF_REFERENCE",
        caught_by=_REPEATED,
    ),
    Mutant(
        "enums-cost-what-their-outer-list-costs",
        _SCHEMA,
        old='_count_elements(value) if keyword in {"const", "enum"} else _length(value)',
        new="_length(value)",
        caught_by=_REPEATED,
    ),
    Mutant(
        "elements-of-answers-cost-nothing",
        _SCHEMA,
        old="(elements + _length(instance))",
        new="elements",
        caught_by=_ANSWERS,
    ),
    Mutant(
        "messages-of-a-check-cost-nothing",
        _SCHEMA,
        old="            budget.charge_characters(len(error.message))\n",
        new="",
        caught_by=_ANSWERS,
    ),
    Mutant(
        "comparing-all-items-costs-nothing",
        _SCHEMA,
        old="    _budget.get().charge_characters(sum(map(len, texts)))\n",
        new="",
        caught_by=_ANSWERS,
    ),
    Mutant(
        "a-step-to-another-part-costs-nothing",
        _SCHEMA,
        old="    _budget.get().charge()\n",
        new="",
        caught_by=_ANSWERS,
    ),
    Mutant(
        "cells-of-sheets-are-not-counted",
        f"{_FILES}/formats/office/excel.py",
        old="        self._left -= width + 1\n",
        new="",
        caught_by=in_file(_HOSTILE, "test_a_few_bytes_that_stand_for_too_many_cells_are_a_problem"),
    ),
    Mutant(
        "rows-without-cells-are-not-counted",
        f"{_FILES}/formats/office/excel.py",
        old="self._left -= width + 1",
        new="self._left -= width",
        caught_by=in_file(_HOSTILE, "test_rows_count_although_they_have_no_cells"),
    ),
    Mutant(
        "scans-have-the-time-of-a-text",
        f"{_FILES}/file_parser.py",
        old="return limits.wall_s + (limits.pages * limits.ocr_page_s if self._options.ocr else 0.0)",
        new="return limits.wall_s",
        caught_by=in_file(_HOSTILE, "test_a_scan_is_read_however_long_its_pages_take_together"),
    ),
    Mutant(
        "pieces-of-an-address-are-read-again-with-each-piece",
        "services/search/kb_search/runs/addresses.py",
        old="        if self._still_waits(piece):\n",
        new="        if False:\n",
        caught_by=in_file(
            "tests/unit/runs/test_addresses.py",
            "test_an_answer_in_many_pieces_is_read_no_more_often_than_it_grows",
        ),
    ),
    Mutant(
        "json-is-parsed-before-its-values-are-counted",
        "contracts/kb_contracts/strict_json.py",
        old="    if _has_too_many_values(text, max_values):\n",
        new="    if json.loads(text) and _has_too_many_values(text, max_values):\n",
        caught_by=in_file(
            "tests/unit/contracts/test_strict_json.py",
            "test_a_document_is_refused_after_each_character_was_read_twice_at_most_and_none_was_parsed",
        ),
    ),
    Mutant(
        "detectors-of-credentials-see-whole-lines",
        "shared/kb_shared/text/sensitive_content.py",
        old="        for window in _windows(line):\n",
        new="        for window in [line]:\n",
        caught_by=in_file(
            "tests/unit/text/test_sensitive_content.py",
            "test_detectors_of_the_library_which_may_be_quadratic_see_short_windows_of_a_text",
        ),
    ),
    Mutant(
        "previews-count-all-texts",
        "services/kb-api/kb_api/preview_documents.py",
        old="if counted.characters >= self._most_characters or (end",
        new="if (end",
        caught_by=in_file(
            "tests/integration/kb_api/test_preview.py",
            "test_if_the_texts_are_long_a_sample_is_counted_and_its_error_is_given",
        ),
    ),
)
