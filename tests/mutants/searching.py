"""Faults of what is shown: versions, filters, what is so at the moment of the answer."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_FOUND_CHUNKS: Final = "services/search/kb_search/store/found_chunks.py"
_SNAPSHOT: Final = "services/search/kb_search/retrieval/snapshot.py"
_FUSION: Final = "services/search/kb_search/retrieval/fusion.py"
_STRENGTH: Final = "services/search/kb_search/retrieval/strength.py"
_SELECTION: Final = "services/search/kb_search/retrieval/selection.py"

_TESTS: Final = "tests/integration/search"
_UNIT: Final = "tests/unit/search"

_LEGS: Final = "services/search/kb_search/retrieval/legs.py"
_QUERY: Final = "services/search/kb_search/retrieval/query.py"
_SEARCH_INDEX: Final = "services/search/kb_search/retrieval/search_index.py"
_SPELLINGS: Final = "shared/kb_shared/text/spellings.py"

MUTANTS: Final = (
    Mutant(
        "strength-rises-again",
        _STRENGTH,
        old="        falling.append(min(strength, falling[-1], key=_ORDER.index) if falling else strength)\n",
        new="        falling.append(strength)\n",
        caught_by=in_file(f"{_UNIT}/test_strength.py", "test_it_never_rises_and_claims_no_more_than_each_passage_does"),
    ),
    Mutant(
        "noise-is-found",
        _STRENGTH,
        old="    return None if scale is None or is_open else scale.noise\n",
        new="    return None\n",
        caught_by=in_file(f"{_TESTS}/test_modes.py", "test_noise_finds_nothing"),
    ),
    Mutant(
        "the-only-chunk-counts-as-unrelated",
        _FUSION,
        old="    zero = _UNRELATED + (best_first[-1] - _UNRELATED) * len(best_first) / _DEPTH\n",
        new="    zero = best_first[-1]\n",
        caught_by=in_file(f"{_UNIT}/test_fusion.py", "test_the_only_chunk_is_not_taken_for_an_unrelated_one"),
    ),
    Mutant(
        "words-that-every-text-has-make-a-match",
        _QUERY,
        old="        text = kept = leave_out_function_words(self.text)\n",
        new="        text = kept = self.text\n",
        caught_by=in_file(f"{_UNIT}/test_function_words.py", "test_a_question_is_searched_for_by_what_it_asks_about"),
    ),
    Mutant(
        "equals-of-the-last-chunk-are-cut-off",
        _LEGS,
        old="        end = end_of_ties([*found.values()], limit)\n",
        new="        end = limit\n",
        caught_by=in_file(f"{_UNIT}/test_search_index.py", "test_equals_of_the_last_chunk_are_all_returned"),
    ),
    Mutant(
        "clauses-of-a-filter-do-not-count",
        _QUERY,
        old="count_clauses([*filters])",
        new="0",
        caught_by=in_file(f"{_UNIT}/test_text_filter.py", "test_a_filter_leaves_room_for_fewer_words"),
    ),
    Mutant(
        "too-many-clauses-are-an-internal-error",
        _SEARCH_INDEX,
        old="if _TOO_MANY_CLAUSES in text:",
        new="if _TOO_MANY_CLAUSES == text:",
        caught_by=in_file(f"{_UNIT}/test_search_index.py", "test_an_error_of_an_index_tells_what_to_do"),
    ),
    Mutant(
        "copies-take-a-place-each",
        _SELECTION,
        old="        by_passage.setdefault(hit.passage, []).append(hit)\n",
        new='        by_passage.setdefault((hit.chunk["_id"],), []).append(hit)\n',
        caught_by=in_file(f"{_UNIT}/test_selection.py", "test_copies_take_the_place_of_the_best_of_them"),
    ),
    Mutant(
        "a-text-under-another-heading-is-a-copy",
        _SELECTION,
        old='        return *entry, *self.chunk.get("heading_path", ()), self.chunk["chunk_text"].strip()\n',
        new='        return *entry, self.chunk["chunk_text"].strip()\n',
        caught_by=in_file(f"{_UNIT}/test_selection.py", "test_the_same_text_under_another_heading_is_another_passage"),
    ),
    Mutant(
        "terms-of-a-text-are-without-limit",
        _SPELLINGS,
        old="            if len(found) >= _MOST_TERMS:\n",
        new="            if len(found) >= 1_000 * _MOST_TERMS:\n",
        caught_by=in_file("tests/unit/text/test_spellings.py", "test_a_table_of_numbers_has_a_bounded_number_of_terms"),
    ),
    Mutant(
        "versions-of-what-was-replaced-are-mixed",
        _FOUND_CHUNKS,
        old='    return [row for row in recently_retired if row["since"] <= version <= row["until"]]',
        new="    return recently_retired if version else []",
        caught_by=in_file(f"{_UNIT}/test_selection.py", "test_only_one_replaced_version_is_shown"),
    ),
    Mutant(
        "versions-of-live-and-replaced-are-mixed",
        _FOUND_CHUNKS,
        old="    if live:\n        return live\n",
        new="    if len(live) == len(rows):\n        return live\n",
        caught_by=in_file(f"{_UNIT}/test_selection.py", "test_a_live_hit_hides_replaced_chunks"),
    ),
    Mutant(
        "versions-long-gone-are-shown",
        _FOUND_CHUNKS,
        old='if row["retired_for_ms"] < limit_ms',
        new='if row["retired_for_ms"] < 10 * limit_ms',
        caught_by=in_file(
            f"{_UNIT}/test_selection.py",
            "test_replaced_chunks_are_shown_for_thirty_seconds_while_no_hit_of_the_document_is_live",
        ),
    ),
    Mutant(
        "neighbours-come-from-any-version",
        _SNAPSHOT,
        old="neighbours = found_chunks.select_same_versions(rows, [hit.chunk for hit in matches])",
        new="neighbours = rows",
        caught_by=in_file(
            f"{_TESTS}/test_neighbours_and_budget.py", "test_no_neighbour_comes_from_a_version_that_was_longer"
        ),
    ),
    Mutant(
        "neighbours-of-what-was-replaced-are-live",
        _FOUND_CHUNKS,
        old='        return version is None and row["until"] is None\n',
        new='        return row["until"] is None\n',
        caught_by=in_file(
            f"{_UNIT}/test_versions_of_neighbours.py", "test_neighbours_of_a_replaced_chunk_were_replaced_with_it"
        ),
    ),
    Mutant(
        "hits-are-not-filtered-again",
        _FOUND_CHUNKS,
        old='matching: Row = {**chunks.scope, **({"$and": [dict(query_filter)]} if query_filter else {})}',
        new="matching: Row = {**chunks.scope}",
        caught_by=in_file(f"{_TESTS}/test_meanwhile.py", "test_a_hit_that_no_longer_matches_the_filter_is_not_shown"),
    ),
    Mutant(
        "hits-of-documents-that-left-are-shown",
        _SELECTION,
        old='        if row["document_id"] in indexed:\n',
        new="        if indexed is not None:\n",
        caught_by=in_file(f"{_UNIT}/test_selection.py", "test_a_document_whose_row_is_gone_is_dropped")
        + in_file(f"{_TESTS}/test_meanwhile.py", "test_a_document_that_left_is_not_shown"),
    ),
    Mutant(
        "hits-that-were-replaced-do-not-give-way",
        _SELECTION,
        old="    return bool(retired) and any(",
        new="    return not retired and any(",
        caught_by=in_file(
            f"{_UNIT}/test_selection.py",
            "test_a_replaced_chunk_may_be_superseded_only_by_an_unread_hit_of_its_document",
        )
        + in_file(
            f"{_TESTS}/test_meanwhile.py", "test_replaced_chunks_that_fill_a_page_are_superseded_by_live_chunks_below"
        ),
    ),
    Mutant(
        "hits-as-good-as-the-last-are-left-unread",
        _SELECTION,
        old="        size += 1\n    return size",
        new="        break\n    return size",
        caught_by=in_file(
            f"{_UNIT}/test_selection.py", "test_no_hit_with_the_score_of_the_last_one_read_is_left_unread"
        )
        + in_file(f"{_TESTS}/test_modes.py", "test_pages_of_equal_chunks_neither_repeat_nor_miss_one"),
    ),
    Mutant(
        "hits-below-the-least-relevance-are-shown",
        _SELECTION,
        old="relevance is None or relevance >= min_score",
        new="relevance is None or relevance >= 0",
        caught_by=in_file(f"{_UNIT}/test_selection.py", "test_min_score_cuts_by_relevance_and_makes_the_count_exact"),
    ),
    Mutant(
        "filter-takes-or-for-and",
        "services/search/kb_search/filters/filter_clauses.py",
        old='combination = "$and" if isinstance(clause, AllHold) else "$or"',
        new='combination = "$and"',
        caught_by=in_file(f"{_UNIT}/test_filters.py", "test_or_needs_one_filter_to_match_and_and_needs_all"),
    ),
    Mutant(
        "filter-compares-what-has-no-path",
        "services/search/kb_search/filters/compile_filter.py",
        old="if compared.key not in filterable_metadata:",
        new="if compared.key is None:",
        caught_by=in_file(
            f"{_UNIT}/test_filters.py",
            "test_a_comparison_of_a_key_without_a_filter_path_is_refused_by_name",
        ),
    ),
    Mutant(
        "filter-of-words-finds-what-is-excluded",
        "services/search/kb_search/filters/text_filter.py",
        old='"mustNot": [operator]',
        new='"mustNot": []',
        caught_by=in_file(f"{_UNIT}/test_text_filter.py", "test_each_clause_has_an_operator_that_means_the_same"),
    ),
    Mutant(
        "search-does-not-check-what-it-presumed",
        _SNAPSHOT,
        old="            self._unchecked.check(found.extra_rows)\n",
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_optimistic.py", "test_a_key_revoked_while_its_search_is_under_way_gets_no_answer"
        ),
    ),
    Mutant(
        "search-pays-for-who-may-no-longer-ask",
        "services/search/kb_search/retrieval/search_knowledge_base.py",
        old="before_paying=optimistic_read.confirm,\n",
        new="before_paying=None,\n",
        caught_by=in_file(f"{_TESTS}/test_optimistic.py", "test_a_new_query_looks_at_key_and_kb_before_it_is_paid_for"),
    ),
    Mutant(
        "analyzer-is-judged-by-chunks-that-were-replaced",
        "shared/kb_shared/mongo/vectors.py",
        old='        {"$match": {**chunks.scope, "until": None}},\n        {"$limit": at_most},\n',
        new='        {"$match": chunks.scope},\n        {"$limit": at_most},\n',
        caught_by=in_file(
            "tests/integration/kb_api/test_detect_languages.py",
            "test_an_analyzer_that_does_not_fit_is_warned_of_as_long_as_such_documents_are_there",
        ),
    ),
    Mutant(
        "language-hides-what-was-written-during-its-detection",
        "services/kb-api/kb_api/detect_languages.py",
        old="language.code, writes=writes)",
        new="language.code, writes=(await kb_slots.sum_writes(database))[key.kb_id])",
        caught_by=in_file(
            "tests/integration/kb_api/test_detect_languages.py",
            "test_what_is_written_during_a_detection_is_looked_at_in_the_next_round",
        ),
    ),
    Mutant(
        "all-that-a-model-saw-counts-as-cited",
        "services/search/kb_search/runs/run_recorder.py",
        old="            cited=(passage.kb_id, passage.citation) in cited,\n",
        new="            cited=bool(cited),\n",
        caught_by=in_file(
            "tests/integration/runs/test_citations.py",
            "test_each_chunk_that_the_model_saw_is_a_row_and_only_cited_ones_count_as_cited",
        ),
    ),
    Mutant(
        "an-older-deletion-takes-the-citations-of-a-document",
        "services/indexer/kb_indexer/project_events.py",
        old="isinstance(each.event, DocumentDeleted) and not after.alive",
        new="isinstance(each.event, DocumentDeleted)",
        caught_by=in_file(
            "tests/integration/indexer/test_fan_out.py",
            "test_citations_are_deleted_with_their_document_and_an_older_deletion_leaves_them",
        ),
    ),
    Mutant(
        "the-search-before-the-model-speaks-is-not-shown-to-it",
        "services/search/kb_search/runs/run_execution.py",
        old="messages = self._plan.messages(found)",
        new="messages = self._plan.messages()",
        caught_by=in_file(
            "tests/integration/runs/test_auto_search.py",
            "test_an_agent_that_never_calls_its_tool_cites_the_right_passage",
        ),
    ),
    Mutant(
        "an-answer-without-a-search-counts",
        "services/search/kb_search/runs/run_execution.py",
        old="case ModelAnswered() | Repair() if must_search:",
        new="case ModelAnswered() | Repair() if must_search and self._found:",
        caught_by=in_file(
            "tests/integration/runs/test_auto_search.py",
            "test_an_answer_that_does_not_count_is_not_streamed",
        ),
    ),
    Mutant(
        "a-schema-keeps-a-model-from-searching",
        "services/search/kb_search/runs/run_execution.py",
        old="schema=None if action.with_tools else plan.schema",
        new="schema=plan.schema",
        caught_by=in_file(
            "tests/integration/runs/test_runs.py",
            "test_an_answer_against_the_schema_is_fixed_once_or_refused_with_what_is_wrong",
        ),
    ),
    Mutant(
        "any-number-in-brackets-is-a-citation",
        "services/search/kb_search/runs/mark_notation.py",
        old="return 1 <= number <= self.highest + MORE_THAN_FOUND",
        new="return number >= 1",
        caught_by=in_file(
            "tests/unit/runs/test_marks.py",
            "test_brackets_that_are_part_of_the_text_stay_and_cite_nothing",
            "test_an_invented_number_is_one_only_little_above_those_that_were_found",
        ),
    ),
    Mutant(
        "a-number-that-is-the-text-of-a-link-stays-a-mark",
        "services/search/kb_search/runs/mark_notation.py",
        old=r"|\([^A-Za-z/#.<]",
        new=r"|\(",
        caught_by=in_file("tests/unit/runs/test_marks.py", "test_a_mark_of_what_was_never_found_is_not_shown_as_one"),
    ),
    Mutant(
        "what-follows-a-mark-is-not-waited-for",
        "services/search/kb_search/runs/marks.py",
        old="end = _beginning_of_unfinished_mark(text, end)\n        return end, _end_of_code(text) if ticks else None",
        new="return end, _end_of_code(text) if ticks else None",
        caught_by=in_file(
            "tests/unit/runs/test_marks.py",
            "test_an_answer_that_is_cut_anywhere_is_shown_as_the_whole_one",
        ),
    ),
    Mutant(
        "marks-of-earlier-answers-are-sent-along",
        "services/search/kb_search/runs/plan.py",
        old='if message["role"] != "assistant":',
        new='if message["role"] != "none":',
        caught_by=in_file(
            "tests/unit/runs/test_prompt.py",
            "test_marks_that_an_assistant_wrote_in_another_run_are_not_sent",
        ),
    ),
    Mutant(
        "lines-of-a-passage-are-not-quoted",
        "services/search/kb_search/runs/passages.py",
        old='f"> {line}".rstrip()',
        new="line",
        caught_by=in_file(
            "tests/unit/runs/test_passages_and_citations.py",
            "test_no_name_and_no_line_of_a_passage_can_be_taken_for_another_passage",
        ),
    ),
    Mutant(
        "a-follow-up-is-searched-alone",
        "services/search/kb_search/runs/auto_search.py",
        old="for earlier in reversed(before[-_QUESTIONS_BEFORE:]):",
        new="for earlier in reversed(before[:0]):",
        caught_by=in_file(
            "tests/unit/runs/test_prompt.py",
            "test_a_follow_up_is_searched_with_the_two_questions_before_it",
        ),
    ),
    Mutant(
        "a-tool-that-writes-leaves-out-what-it-does-not-know",
        "services/search/kb_search/runs/lenient_arguments.py",
        old="if name not in names] if ignores_unknown else []",
        new="if name not in names]",
        caught_by=in_file(
            "tests/unit/runs/test_lenient_arguments.py",
            "test_an_unknown_argument_is_left_out_unless_the_tool_writes",
        ),
    ),
    Mutant(
        "one-administrator-among-the-authors-is-enough",
        "services/search/kb_search/runs/inject_knowledge.py",
        old="if entry.authors and admins.issuperset(entry.authors)",
        new="if entry.authors and not admins.isdisjoint(entry.authors)",
        caught_by=in_file(
            "tests/integration/runs/test_injection.py",
            "test_only_instructions_that_an_administrator_wrote_are_no_data",
        ),
    ),
    Mutant(
        "attachments-with-invisible-line-ends",
        "services/search/kb_search/runs/injected_message.py",
        old="map(remove_invisible_characters, (values.action_memory, values.attachments))",
        new="values.action_memory, values.attachments",
        caught_by=in_file(
            "tests/injection/test_injected_knowledge.py",
            "test_a_model_obeys_no_attachment_and_no_memory_of_a_tool",
        ),
    ),
)
