"""Faults in curated knowledge: credentials that get in, edges that lack a node, models that are obeyed."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_SERVICE: Final = "services/knowledge/kb_knowledge"
_GRAPH: Final = "shared/kb_shared/mongo/knowledge_graph.py"
_INTEGRATION: Final = "tests/integration/knowledge"

MUTANTS: Final = (
    Mutant(
        "edge-does-not-write-its-nodes",
        _GRAPH,
        old='    await database[NAME].update_many(query, {"$inc": {"fence": 1}}, session=session)\n',
        new="    assert query\n",
        caught_by=in_file(
            f"{_INTEGRATION}/test_knowledge_graph.py",
            "test_a_deleted_node_takes_its_edges_with_it_and_no_edge_can_be_added_meanwhile",
        ),
    ),
    Mutant(
        "traversal-of-all-organizations",
        _GRAPH,
        old='                "restrictSearchWithMatch": {"organization_id": key.organization_id},\n',
        new="",
        caught_by=in_file(
            f"{_INTEGRATION}/test_knowledge_graph.py",
            "test_a_neighbourhood_has_the_edges_in_their_direction_up_to_the_depth",
        ),
    ),
    Mutant(
        "the-last-author-is-the-only-one",
        "shared/kb_shared/mongo/knowledge_entries.py",
        old="    return tuple(dict.fromkeys((*entry.authors, by)))",
        new="    return (by,)",
        caught_by=in_file(
            f"{_INTEGRATION}/test_entries.py",
            "test_all_who_wrote_an_entry_are_its_authors_until_its_content_is_replaced",
        ),
    ),
    Mutant(
        "entries-lose-their-filters",
        "services/kb-api/kb_api/change_knowledge_base.py",
        old="        require_filters_of_entries(kb, requested.filterable_metadata)\n",
        new="        assert requested\n",
        caught_by=in_file(
            "tests/integration/kb_api/test_curated_knowledge.py",
            "test_the_knowledge_base_of_entries_keeps_the_filters_of_searches_for_entries",
        ),
    ),
    Mutant(
        "import-with-credentials",
        f"{_SERVICE}/read_checked_import.py",
        old="        if found := check_content(text):\n",
        new="        if (found := check_content(text)) and not text:\n",
        caught_by=in_file(
            f"{_INTEGRATION}/test_import.py", "test_four_bad_items_are_skipped_and_a_second_import_changes_nothing"
        )
        + in_file(
            f"{_INTEGRATION}/test_structure.py",
            "test_credentials_are_refused_in_the_text_and_left_out_of_the_answer",
        ),
    ),
    Mutant(
        "a-reason-may-be-the-credential",
        f"{_SERVICE}/write_entries.py",
        old='        refuse_sensitive(reason, field="override_reason")\n',
        new="",
        caught_by=in_file(
            f"{_INTEGRATION}/test_entries.py",
            "test_a_person_can_say_why_a_text_has_no_credential_and_the_audit_log_keeps_the_reason",
        ),
    ),
    Mutant(
        "the-reason-is-not-recorded",
        "shared/kb_shared/http/audit.py",
        old='                reason=self.request.scope["state"].get(_REASON),\n',
        new="",
        caught_by=in_file(
            f"{_INTEGRATION}/test_entries.py",
            "test_a_person_can_say_why_a_text_has_no_credential_and_the_audit_log_keeps_the_reason",
        ),
    ),
    Mutant(
        "each-ticket-is-a-password",
        "shared/kb_shared/text/sensitive_content.py",
        old='            return _is_password(match["value"]) and not _is_ticket(match)\n',
        new='            return _is_password(match["value"])\n',
        caught_by=in_file("tests/unit/text/test_sensitive_content.py", "test_harmless_texts_pass_also_all_in_one_text"),
    ),
    Mutant(
        "each-pass-is-a-ticket",
        "shared/kb_shared/text/sensitive_content.py",
        old="    if _OF_A_LOGIN.search(before):\n        return False\n",
        new="    if _OF_A_LOGIN.search(before):\n        return True\n",
        caught_by=in_file(
            "tests/unit/text/test_sensitive_content.py", "test_each_credential_is_found_with_its_pattern_and_its_line"
        ),
    ),
    Mutant(
        "each-value-in-a-sentence-is-a-password",
        "shared/kb_shared/text/sensitive_content.py",
        old='"whose" not in match.re.groupindex or _is_no_term(match["value"])',
        new="True",
        caught_by=in_file("tests/unit/text/test_sensitive_content.py", "test_harmless_texts_pass_also_all_in_one_text"),
    ),
    Mutant(
        "parts-of-long-texts-share-nothing",
        "shared/kb_shared/text/sensitive_content.py",
        old="latest = start + _PART_CHARACTERS - _SHARED_CHARACTERS",
        new="latest = start + _PART_CHARACTERS",
        caught_by=in_file(
            "tests/unit/text/test_sensitive_content.py",
            "test_a_credential_is_found_where_the_parts_of_a_long_text_meet",
        ),
    ),
    Mutant(
        "model-writes-instructions",
        f"{_SERVICE}/read_proposal.py",
        old="    if piece.info_type != INSTRUCTIONS:\n        return piece\n",
        new="    if piece.info_type:\n        return piece\n",
        caught_by=in_file(
            f"{_INTEGRATION}/test_structure.py", "test_an_obedient_model_writes_no_instructions_for_prompts"
        ),
    ),
)
