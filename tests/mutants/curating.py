"""Faults of curated knowledge: what templates may do, and what a retrieval returns."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_KNOWLEDGE: Final = "contracts/kb_contracts/knowledge"
_TESTS: Final = "tests/unit/knowledge"

MUTANTS: Final = (
    Mutant(
        "template-doubles-lists",
        f"{_KNOWLEDGE}/formatters/jinja_subset.py",
        old="    nodes.List: ((_are_constants, _CONSTANTS),),\n",
        new="",
        caught_by=in_file(f"{_TESTS}/test_formatters.py", "test_a_jinja_template_outside_of_the_subset_is_refused"),
    ),
    Mutant(
        "template-calls-any-method",
        f"{_KNOWLEDGE}/formatters/jinja_subset.py",
        old="call.node.attr in _METHODS and not has_arguments",
        new="not has_arguments",
        caught_by=in_file(f"{_TESTS}/test_formatters.py", "test_a_jinja_template_outside_of_the_subset_is_refused"),
    ),
    Mutant(
        "template-formats-to-any-width",
        f"{_KNOWLEDGE}/formatters/format_string.py",
        old="if spec or conversion or not field.isidentifier():",
        new="if not field.isidentifier():",
        caught_by=in_file(f"{_TESTS}/test_formatters.py", "test_a_format_string_may_only_contain_names"),
    ),
    Mutant(
        "merge-keeps-the-last-score",
        f"{_KNOWLEDGE}/merging.py",
        old="_rank(piece) > _rank(known)",
        new="_rank(piece) != _rank(known)",
        caught_by=in_file(f"{_TESTS}/test_formatting.py", "test_merging_keeps_each_piece_once_with_its_highest_score"),
    ),
    Mutant(
        "pieces-of-other-entities",
        "services/search/kb_search/knowledge/entry_criteria.py",
        old='        "entity_id": {"$in": entities},\n',
        new="",
        caught_by=in_file(
            "tests/integration/search/test_knowledge.py", "test_only_pieces_of_the_entity_and_of_all_are_found"
        ),
    ),
)
