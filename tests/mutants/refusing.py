"""Faults of reasons: what an error repeats, and what its receiver does not learn."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_REASONS: Final = "contracts/kb_contracts/reasons"
_TESTS: Final = "tests/contract/test_reasons.py"
_SNAPSHOT: Final = in_file(_TESTS, "test_each_wrong_event_has_the_reason_that_was_agreed_on")
_PRIVATE: Final = "test_no_part_of_a_private_text_is_repeated"

MUTANTS: Final = (
    Mutant(
        "deletion-ignores-the-revision-in-its-body",
        "services/kb-api/kb_api/routes/documents.py",
        old="if (await request.body()).strip() not in _NO_BODY:",
        new="if False:",
        caught_by=in_file(
            "tests/integration/kb_api/test_documents.py",
            "test_a_revision_in_the_body_of_a_deletion_is_not_ignored",
        ),
    ),
    Mutant(
        "reason-names-no-header",
        "contracts/kb_contracts/event_forms.py",
        old="            names[name] = header\n",
        new="            pass\n",
        caught_by=in_file(
            "tests/unit/contracts/test_event_forms.py", "test_a_form_that_can_not_be_read_is_refused_by_its_name"
        ),
    ),
    Mutant(
        "years-are-seconds",
        "contracts/kb_contracts/cloudevents.py",
        old="if not _EARLIEST_NUMBER <= moment < _LATEST_NUMBER:",
        new="if False:",
        caught_by=in_file("tests/unit/contracts/test_event_forms.py", "test_a_number_is_a_time_only_if_it_can_be_one"),
    ),
    Mutant(
        "reason-repeats-names-of-the-author",
        f"{_REASONS}/field_reasons.py",
        old="isinstance(part, int) or not node.is_private or part in node.field_names()",
        new="True",
        caught_by=(
            *in_file(
                "tests/unit/knowledge/test_import_document.py",
                "test_a_reason_quotes_neither_values_nor_names_of_the_author",
            ),
            *in_file(_TESTS, "test_nothing_is_quoted_where_names_and_values_may_be_secrets"),
        ),
    ),
    Mutant(
        "reason-repeats-any-text",
        f"{_REASONS}/shown_values.py",
        old="case str() if node.may_be_shown() and _looks_like(value, node):",
        new="case str():",
        caught_by=in_file(_TESTS, _PRIVATE),
    ),
    Mutant(
        "reason-repeats-a-text-in-the-place-of-a-number",
        f"{_REASONS}/shown_values.py",
        old="case str() if node.may_be_shown() and _looks_like(value, node):",
        new="case str() if node.may_be_shown():",
        caught_by=in_file(_TESTS, _PRIVATE),
    ),
    Mutant(
        "reason-repeats-a-number-in-the-place-of-a-text",
        f"{_REASONS}/shown_values.py",
        old='if _takes_scalars(node) else "a number"',
        new='if True else "a number"',
        caught_by=in_file(_TESTS, "test_a_number_in_place_of_a_free_text_is_not_repeated"),
    ),
    Mutant(
        "reason-repeats-any-name",
        f"{_REASONS}/shown_values.py",
        old='return name if _PLAIN.fullmatch(name) else "?"',
        new="return name",
        caught_by=in_file(_TESTS, _PRIVATE),
    ),
    Mutant(
        "reason-repeats-the-name-of-metadata",
        f"{_REASONS}/schema_nodes.py",
        old='replace(self._at(self.schema.get("keys_schema", _ANY)), is_private=True)',
        new='replace(self._at(self.schema.get("keys_schema", _ANY)), is_private=False)',
        caught_by=_SNAPSHOT,
    ),
    Mutant(
        "reason-repeats-the-words-of-a-library",
        f"{_REASONS}/sentences.py",
        old="if type(reason) is not ValueError or not str(reason):",
        new="if not str(reason):",
        caught_by=in_file(_TESTS, "test_an_error_of_a_library_within_a_validator_does_not_repeat_its_words"),
    ),
    Mutant(
        "reason-names-each-alternative",
        f"{_REASONS}/field_reasons.py",
        old="    if node.is_union:\n        yield from _of_union(errors, node, path, parent=parent)\n        return\n",
        new="",
        caught_by=_SNAPSHOT,
    ),
    Mutant(
        "event-with-a-name-twice-is-read",
        f"{_REASONS}/json_text.py",
        old="if len(value) != len(pairs):",
        new="if len(value) > len(pairs):",
        caught_by=_SNAPSHOT,
    ),
)
