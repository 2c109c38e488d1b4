"""Faults of the way from an event to chunks: projection, fan-out, jobs, swap, what is deleted when."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_FAN_OUT: Final = "services/indexer/kb_indexer/fan_out.py"
_SYNC: Final = "services/indexer/kb_indexer/sync_document.py"
_FAILURES: Final = "services/indexer/kb_indexer/sync_failures.py"
_SWAP: Final = "services/indexer/kb_indexer/swap.py"
_PROBE: Final = "services/indexer/kb_indexer/searchable.py"
_METADATA: Final = "contracts/kb_contracts/metadata.py"
_PROJECTION: Final = "shared/kb_shared/membership/projection.py"
_DOCUMENTS: Final = "shared/kb_shared/mongo/documents.py"
_DOCUMENT_INDEX: Final = "shared/kb_shared/mongo/document_index.py"
_SLOTS: Final = "shared/kb_shared/mongo/kb_slots.py"
_VECTORS: Final = "shared/kb_shared/mongo/vectors.py"
_REQUESTS: Final = "shared/kb_shared/mongo/index_jobs/requests.py"
_WORK: Final = "shared/kb_shared/mongo/index_jobs/work.py"
_ESTIMATE: Final = "services/kb-api/kb_api/indexing_estimate.py"
_ESTIMATE_TESTS: Final = "tests/unit/kb_api/test_indexing_estimate.py"
_REBUILDS: Final = "tests/integration/kb_api/test_rebuild_search_indexes.py"

_PAGES: Final = "tests/unit/chunking/test_headings_types_and_pages.py"
_EMBEDDING_TEXTS: Final = "tests/unit/chunking/test_embedding_texts.py"
_TESTS: Final = "tests/integration/indexer"
_UNIT: Final = "tests/unit/indexer"
_REFUSED: Final = f"{_TESTS}/test_refused_documents.py"

_DISPATCHER: Final = "services/indexer/kb_indexer/queue_dispatcher.py"
_QUEUED_JOBS: Final = f"{_TESTS}/test_queued_jobs.py"

MUTANTS: Final = (
    Mutant(
        "bad-metadata-refuse-the-document",
        "contracts/kb_contracts/cloudevents.py",
        old="model.model_validate(envelope.data, context=RECEIVED)",
        new="model.model_validate(envelope.data)",
        caught_by=(
            *in_file(
                f"{_TESTS}/test_metadata_warnings.py",
                "test_a_bad_value_costs_neither_the_document_nor_the_other_values",
            ),
            *in_file(f"{_UNIT}/test_storable_metadata.py", "test_any_json_as_metadata_costs_only_itself"),
        ),
    ),
    Mutant(
        "a-number-that-is-none-refuses-the-document",
        "contracts/kb_contracts/event_forms.py",
        old="remove_schema_id(value)), any_number=True)",
        new="remove_schema_id(value)))",
        caught_by=in_file(
            f"{_UNIT}/test_storable_metadata.py", "test_a_number_that_python_can_not_read_costs_only_itself"
        ),
    ),
    Mutant(
        "metadata-beyond-the-limit-are-kept",
        _METADATA,
        old="if not faults and len(stored) == MAX_METADATA_KEYS:",
        new="if False:",
        caught_by=in_file(f"{_UNIT}/test_storable_metadata.py", "test_of_too_many_keys_the_first_are_kept"),
    ),
    Mutant(
        "warnings-beyond-the-limit-are-not-counted",
        _METADATA,
        old="    if count <= MAX_WARNINGS:\n",
        new="    if True:\n",
        caught_by=in_file(
            f"{_UNIT}/test_storable_metadata.py", "test_of_too_many_warnings_the_last_one_counts_the_others"
        ),
    ),
    Mutant(
        "strict-organizations-are-not-asked",
        _FAN_OUT,
        old="if settings is not None and settings.strict_metadata:",
        new="if False:",
        caught_by=in_file(
            f"{_TESTS}/test_metadata_warnings.py",
            "test_a_strict_organization_refuses_the_document_and_another_one_does_not",
        ),
    ),
    Mutant(
        "strict-organizations-refuse-what-was-left-out-before",
        _FAN_OUT,
        old='require_storable_metadata(envelope.data.get("metadata"))',
        new='raise Rejected("bad-data", "")',
        caught_by=in_file(
            f"{_TESTS}/test_metadata_warnings.py",
            "test_what_the_sender_left_out_is_shown_also_in_a_strict_organization",
        ),
    ),
    Mutant(
        "warnings-do-not-decide-between-equal-revisions",
        _PROJECTION,
        old='    content += sorted(("", each.field, "") for each in warnings)\n',
        new="",
        caught_by=in_file(
            f"{_UNIT}/test_projection.py",
            "test_metadata_with_and_without_warnings_of_one_revision_come_out_alike_whichever_came_first",
        ),
    ),
    Mutant(
        "warnings-alone-are-not-announced",
        _DOCUMENTS,
        old="        *document.warnings,\n",
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_metadata_warnings.py",
            "test_the_outcome_of_each_change_says_what_is_left_out_now",
        ),
    ),
    Mutant(
        "what-was-left-out-of-a-file-does-not-decide-between-equal-revisions",
        _PROJECTION,
        old="    content += event.reading_warnings or ()\n",
        new="",
        caught_by=in_file(
            f"{_UNIT}/test_projection.py",
            "test_what_could_not_be_read_belongs_to_the_text_and_comes_out_alike_whichever_came_first",
        ),
    ),
    Mutant(
        "warnings-outlive-what-an-older-version-writes",
        _DOCUMENTS,
        old='bool(row.get("warned_version") == row.get("projection_version"))',
        new="True",
        caught_by=in_file(
            f"{_TESTS}/test_metadata_warnings.py",
            "test_warnings_go_when_a_replica_of_an_older_version_changes_the_document",
        ),
    ),
    Mutant(
        "an-unchanged-text-is-announced-without-warnings",
        "services/indexer/kb_indexer/acknowledgements.py",
        old="            warnings=self.warnings or None,\n",
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_metadata_warnings.py",
            "test_the_outcome_of_each_change_says_what_is_left_out_now",
        ),
    ),
    Mutant(
        "http-ignores-strictness",
        "services/kb-api/kb_api/publish_document_event.py",
        old="        await self._refuse_bad_metadata(event)\n",
        new="",
        caught_by=in_file(
            "tests/integration/kb_api/test_metadata_warnings.py",
            "test_a_strict_organization_gets_a_422_with_the_same_words",
        ),
    ),
    Mutant(
        "sensitive-documents-are-indexed",
        "services/indexer/kb_indexer/refuse_sensitive.py",
        old="    if not kb.refuse_sensitive:\n",
        new="    if kb.refuse_sensitive:\n",
        caught_by=in_file(
            f"{_TESTS}/test_jobs.py",
            "test_a_text_with_a_credential_fails_where_it_is_refused_and_is_indexed_elsewhere",
        ),
    ),
    Mutant(
        "queue-ignores-the-limit-of-an-organization",
        _DISPATCHER,
        old="min(self._limits.of_organization - of_organization, self._limits.of_kb - of_kb)",
        new="self._limits.of_kb - of_kb",
        caught_by=in_file(
            _QUEUED_JOBS,
            "test_organizations_take_turns_however_many_knowledge_bases_and_jobs_one_has",
            "test_the_knowledge_bases_of_an_organization_share_what_is_left_of_its_limit",
        ),
    ),
    Mutant(
        "backlog-ignores-the-organization",
        "services/indexer/kb_indexer/consumer/backlog.py",
        old="if of_kb.left <= 0 or of_organization.left <= 0:",
        new="if of_kb.left <= 0:",
        caught_by=(
            *in_file(_QUEUED_JOBS, "test_organizations_take_turns_however_many_knowledge_bases_and_jobs_one_has"),
            *in_file(f"{_UNIT}/test_backlog.py", "test_the_knowledge_bases_of_an_organization_share_its_limit"),
        ),
    ),
    Mutant(
        "backlog-forgets-jobs-since-the-last-count",
        "services/indexer/kb_indexer/consumer/backlog.py",
        old="        of_kb.left -= 1\n",
        new="",
        caught_by=in_file(f"{_UNIT}/test_backlog.py", "test_jobs_since_the_last_count_are_counted_too"),
    ),
    Mutant(
        "sweeper-takes-queued-jobs",
        "shared/kb_shared/mongo/index_jobs/due.py",
        old='                "queued": {"$ne": True},\n                "$expr"',
        new='                "$expr"',
        caught_by=in_file(_QUEUED_JOBS, "test_the_sweeper_leaves_queued_jobs_in_the_queue"),
    ),
    Mutant(
        "finished-attempt-stays-in-the-lane",
        _WORK,
        old='[{"$set": {**fields, "lease_owner": None, "lease_until": None, "in_lane": False}}]',
        new='[{"$set": {**fields, "lease_owner": None, "lease_until": None}}]',
        caught_by=in_file(_QUEUED_JOBS, "test_a_job_leaves_the_lanes_when_its_attempt_has_ended"),
    ),
    Mutant(
        "fan-out-leaves-idle-jobs",
        _FAN_OUT,
        old="return action is not Action.NOTHING or job is not None",
        new="return action is not Action.NOTHING",
        caught_by=in_file(
            f"{_TESTS}/test_fan_out.py",
            "test_a_job_that_a_crash_left_with_nothing_to_do_ends_when_its_event_comes_again",
        ),
    ),
    Mutant(
        "fan-out-ignores-drift",
        _FAN_OUT,
        old="return changed or _has_drift(action, job)",
        new="return changed",
        caught_by=in_file(
            f"{_TESTS}/test_fan_out.py",
            "test_an_event_that_comes_again_after_a_crash_sends_what_the_first_try_did_not",
            "test_a_stale_event_requests_drifted_documents_all_the_same",
        ),
    ),
    Mutant(
        "fan-out-takes-a-refused-event-of-a-bundle-for-handled",
        _FAN_OUT,
        old="                refused |= dict.fromkeys(part, error)\n",
        new="                log.info(error)\n",
        caught_by=in_file(
            f"{_TESTS}/test_bundles.py", "test_an_event_that_is_refused_costs_no_other_event_of_its_bundle"
        ),
    ),
    Mutant(
        "fan-out-forgets-a-deletion-within-a-bundle",
        "services/indexer/kb_indexer/project_events.py",
        old="if after.has_died and after.document.alive:",
        new="if False:",
        caught_by=in_file(
            f"{_TESTS}/test_bundles.py",
            "test_citations_go_with_a_document_that_is_deleted_and_comes_back_in_one_bundle",
        ),
    ),
    Mutant(
        "fan-out-applies-the-last-event-of-a-bundle-alone",
        "services/indexer/kb_indexer/project_events.py",
        old="after = _fold(before or Document(*key), events, texts)",
        new="after = _fold(before or Document(*key), events[-1:], texts)",
        caught_by=in_file(
            f"{_TESTS}/test_bundles.py", "test_events_that_come_together_give_the_state_that_they_give_one_by_one"
        ),
    ),
    *(
        Mutant(
            name, _ESTIMATE, old=old, new=new, caught_by=in_file("tests/unit/kb_api/test_indexing_estimate.py", *tests)
        )
        for name, old, new, *tests in (
            (
                "documents-count-alike-whatever-their-length",
                "mean_chunks if each.text_length is None else each.text_length / characters",
                "mean_chunks",
                "test_the_error_after_a_third_is_below_a_half_whatever_the_order",
            ),
            (
                "a-half-done-document-counts-as-not-begun",
                "left = max(1, each.chunk_count - each.embedded_count)",
                "left = max(1, each.chunk_count)",
                "test_the_error_after_a_third_is_below_a_half_whatever_the_order",
                "test_progress_is_a_share_of_the_chunks",
            ),
            (
                "what-the-cache-has-makes-no-estimate-shorter",
                "work.uncut / (1 + cached_share)",
                "work.uncut",
                "test_the_error_after_a_third_is_below_a_half_whatever_the_order",
            ),
            (
                "the-first-moment-of-a-run-counts-without-its-time",
                "for _, done in within[:-1]",
                "for _, done in within",
                "test_what_the_last_run_took_tells_how_long_the_next_one_takes_before_it_has_begun",
            ),
            (
                "a-pace-is-that-of-the-last-minute",
                "window = max(_SHORTEST_WINDOW_S, (newest - oldest) * _SHARE_OF_RUN)",
                "window = _SHORTEST_WINDOW_S",
                "test_an_estimate_is_no_more_unsteady_than_the_machine",
            ),
            (
                "a-pace-is-that-of-the-whole-run",
                "window = max(_SHORTEST_WINDOW_S, (newest - oldest) * _SHARE_OF_RUN)",
                "window = newest - oldest",
                "test_an_estimate_follows_a_machine_that_becomes_half_as_fast",
            ),
        )
    ),
    Mutant(
        "an-end-is-told-while-events-are-read-late",
        "services/kb-api/kb_api/indexing_progress.py",
        old="seconds = None if more_arriving else await",
        new="seconds = await",
        caught_by=in_file(
            "tests/integration/kb_api/test_documents_of_knowledge_base.py",
            "test_no_end_is_told_while_events_are_read_late",
        ),
    ),
    Mutant(
        "a-knowledge-base-is-active-while-documents-are-indexed",
        "shared/kb_shared/mongo/knowledge_bases.py",
        old='{"$ne": [f"${index_jobs.NAME}", []]}',
        new='{"$eq": [f"${index_jobs.NAME}", None]}',
        caught_by=(
            *in_file(
                "tests/integration/kb_api/test_list_knowledge_bases.py",
                "test_a_knowledge_base_is_indexing_until_the_last_document_is_done",
                "test_filter_and_order_are_those_of_the_status_that_is_shown",
            ),
            *in_file(
                "tests/integration/search/test_search.py",
                "test_a_kb_is_indexing_for_searches_while_a_document_of_it_has_an_open_job",
            ),
        ),
    ),
    Mutant(
        "a-new-request-keeps-the-chunks-of-the-text-before",
        _REQUESTS,
        old='                    "chunk_count": None,\n                    "embedded_count": 0,\n',
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_embedding_progress.py",
            "test_a_new_request_forgets_the_chunks_of_the_text_before",
        ),
    ),
    Mutant(
        "each-document-notes-how-far-it-is",
        "services/indexer/kb_indexer/embedding_progress.py",
        old="missing > (MAX_TEXTS if is_first else 0)",
        new="missing",
        caught_by=in_file(
            f"{_TESTS}/test_embedding_progress.py",
            "test_a_document_whose_vectors_come_in_one_answer_costs_no_write_more",
        ),
    ),
    Mutant(
        "a-worker-notes-at-the-job-of-another",
        _WORK,
        old='{**_as_claimed(job), "lease_owner": job.lease_owner},',
        new="_as_claimed(job),",
        caught_by=in_file(f"{_TESTS}/test_embedding_progress.py", "test_a_worker_that_lost_the_job_notes_nothing"),
    ),
    Mutant(
        "fan-out-sends-what-is-right",
        _FAN_OUT,
        old="return not await self._acknowledgements.acknowledge(kb, document, indexed)",
        new="return True",
        caught_by=in_file(
            f"{_TESTS}/test_documents.py",
            "test_c3_an_unchanged_text_with_a_new_revision_costs_no_embedding_and_no_write_to_its_chunks",
        ),
    ),
    Mutant(
        "fan-out-forgets-who-waits-for-a-text",
        _FAN_OUT,
        old="return job is not IndexJobState.WAITING_FOR_TEXT",
        new="return False",
        caught_by=in_file(
            f"{_TESTS}/test_fan_out.py",
            "test_a_document_without_a_text_waits_for_it_though_a_crash_came_before_its_job",
        ),
    ),
    Mutant(
        "projection-counts-the-last-to-come",
        _PROJECTION,
        old="(new.revision, new.digest) > (old.revision, old.digest)",
        new="new.revision >= old.revision",
        caught_by=in_file(
            f"{_UNIT}/test_projection.py", "test_different_contents_of_one_revision_come_out_alike_whichever_came_first"
        ),
    ),
    Mutant(
        "projection-keeps-a-text-of-the-deletion",
        _PROJECTION,
        old="document.text.revision > deleted",
        new="document.text.revision >= deleted",
        caught_by=in_file(f"{_UNIT}/test_projection.py", "test_a_deletion_makes_absent_what_is_no_newer_than_itself"),
    ),
    Mutant(
        "projection-overwrites-who-was-faster",
        _DOCUMENTS,
        old='        "projection_version": document.projection_version,\n    }\n    row = _to_fields(',
        new="    }\n    row = _to_fields(",
        caught_by=in_file(
            f"{_TESTS}/test_fan_out.py",
            "test_an_event_that_is_applied_between_the_read_and_the_write_of_another_one_is_kept",
        ),
    ),
    Mutant(
        "fence-passes-another-text",
        _DOCUMENTS,
        old='            "text_revision": document.text.revision,\n            "text_digest": document.text.digest,\n',
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_races.py", "test_a_text_that_is_replaced_while_it_is_being_swapped_in_is_not_swapped_in"
        ),
    ),
    Mutant(
        "fence-passes-other-tags",
        _DOCUMENTS,
        old='            "tag_ids": {"$in": sorted(any_of_tags)},\n',
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_races.py", "test_w8_what_commits_in_the_middle_of_a_first_swap_is_never_undone_by_it"
        ),
    ),
    Mutant(
        "fence-lets-a-removal-pass-a-new-document",
        _SWAP,
        old="        if fenced is None:\n            raise StaleDecision\n        sequence = fenced",
        new="        sequence = fenced or 0",
        caught_by=in_file(
            f"{_TESTS}/test_races.py", "test_a_document_that_comes_back_while_it_is_being_removed_is_not_removed"
        ),
    ),
    Mutant(
        "slot-passes-other-tags-of-the-kb",
        _SLOTS,
        old='            "state": "live",\n            "tags_version": tags_version,\n',
        new='            "state": "live",\n',
        caught_by=in_file(
            f"{_TESTS}/test_races.py", "test_w8_what_commits_in_the_middle_of_a_first_swap_is_never_undone_by_it"
        ),
    ),
    Mutant(
        "slot-passes-a-deleted-kb",
        _SLOTS,
        old='            "state": "live",\n            "tags_version": tags_version,\n            **',
        new='            "tags_version": tags_version,\n            **',
        caught_by=in_file(
            f"{_TESTS}/test_races.py",
            "test_nothing_enters_a_knowledge_base_whose_deletion_has_begun",
        ),
    ),
    Mutant(
        "slot-passes-a-paused-kb",
        _SLOTS,
        old="            **({} if even_if_paused else _NOT_PAUSED),\n",
        new="",
        caught_by=in_file(f"{_TESTS}/test_pausing.py", "test_pausing_in_the_middle_of_a_documents_work_keeps_it_out"),
    ),
    Mutant(
        "slot-is-read-where-nothing-is-counted",
        _SLOTS,
        old='{"$inc": {"documents": documents, "chunks": chunks, "writes": 1}}',
        new='{"$inc": {"documents": documents, "chunks": chunks}}',
        caught_by=in_file(f"{_TESTS}/test_races.py", "test_a_swap_that_changes_no_counter_fences_all_the_same"),
    ),
    Mutant(
        "swap-renews-chunks-of-another-text",
        _SWAP,
        old="if fenced is None or (chunks is None and not _is_indexed_as(before, document, swap.kb)):",
        new="if fenced is None:",
        caught_by=in_file(
            f"{_TESTS}/test_jobs.py", "test_a_refresh_of_chunks_that_were_replaced_meanwhile_writes_nothing"
        ),
    ),
    Mutant(
        "swap-takes-a-first-indexing-for-clean",
        _SWAP,
        old="is_clean = before is None and swap.attempts == 1",
        new="is_clean = before is None",
        caught_by=in_file(
            f"{_TESTS}/test_documents.py", "test_chunks_left_behind_where_no_document_is_do_not_keep_it_out"
        ),
    ),
    Mutant(
        "removal-leaves-chunks",
        _SWAP,
        old="    await vectors.delete_document(swap.chunks, session, swap.document_id)\n",
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_documents.py", "test_a_deletion_removes_a_document_everywhere_with_its_retired_chunks"
        ),
    ),
    Mutant(
        "sync-does-not-count-chunks",
        _SYNC,
        old="return action if live == indexed.chunk_count else Action.INDEX",
        new="return action",
        caught_by=in_file(
            f"{_TESTS}/test_documents.py", "test_chunks_that_were_lost_are_found_missing_and_stored_again_for_nothing"
        ),
    ),
    Mutant(
        "sync-keeps-a-job-that-was-asked-for-again",
        "services/indexer/kb_indexer/consumer/job_leases.py",
        old="if not finished and job.lease_owner is not None:",
        new="if finished and job.lease_owner is not None:",
        caught_by=in_file(f"{_TESTS}/test_jobs.py", "test_a_job_that_got_another_request_meanwhile_is_due_at_once"),
    ),
    Mutant(
        "sync-never-gives-up-what-workers-die-of",
        _SYNC,
        old="if job.crashes >= MAX_CRASHES:",
        new="if job.crashes > 10 * MAX_CRASHES:",
        caught_by=in_file(
            f"{_TESTS}/test_crashes_of_others.py",
            "test_a_document_that_its_workers_die_of_is_given_up_and_the_one_beside_it_is_indexed",
        ),
    ),
    Mutant(
        "sync-counts-an-outage-as-an-attempt",
        _FAILURES,
        old=('            count_attempt=False,\n        )\n        log.warning("document.parked"'),
        new='        )\n        log.warning("document.parked"',
        caught_by=in_file(f"{_TESTS}/test_jobs.py", "test_w10_an_outage_of_the_provider_uses_up_no_attempts"),
    ),
    Mutant(
        "sync-tries-for-ever",
        _FAILURES,
        old="if job.attempts >= max_attempts:",
        new="if job.attempts > 10 * max_attempts:",
        caught_by=in_file(
            f"{_TESTS}/test_jobs.py",
            "test_a_document_whose_vectors_are_wrong_three_times_is_given_up_with_the_reason_of_the_last",
        ),
    ),
    Mutant(
        "acknowledgement-of-a-row-that-was-swapped",
        _DOCUMENT_INDEX,
        old='                    "text_revision": row.text_revision,\n',
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_documents.py",
            "test_a_new_revision_of_the_same_text_is_not_stored_once_another_text_is_indexed",
        )
        + in_file(f"{_TESTS}/test_unknown_commits.py", "test_an_unchanged_text_is_announced_once"),
    ),
    Mutant(
        "acknowledgement-without-counting-chunks",
        "services/indexer/kb_indexer/acknowledgements.py",
        old="if document.text is None or live != indexed.chunk_count:",
        new="if document.text is None:",
        caught_by=in_file(
            f"{_TESTS}/test_documents.py", "test_an_unchanged_text_is_indexed_again_where_a_chunk_is_missing"
        ),
    ),
    Mutant(
        "job-is-claimed-twice",
        _WORK,
        old='"$or": [{"lease_until": None}, {"lease_owner": owner}',
        new='"$or": [{}, {"lease_owner": owner}',
        caught_by=in_file(
            f"{_TESTS}/test_jobs.py", "test_while_one_replica_has_the_lease_no_other_pays_for_the_same_work"
        ),
    ),
    Mutant(
        "job-is-claimed-before-its-time",
        _WORK,
        old='                "$expr": {"$lte": [{"$ifNull": ["$postponed_until", "$$NOW"]}, "$$NOW"]},\n',
        new="",
        caught_by=in_file(f"{_TESTS}/test_waiting.py", "test_a_command_that_comes_again_uses_up_no_attempt"),
    ),
    Mutant(
        "job-loses-the-lease-of-its-worker",
        _REQUESTS,
        old='"lease_until": {"$ifNull": ["$lease_until", None]}',
        new='"lease_until": None',
        caught_by=in_file(f"{_TESTS}/test_jobs.py", "test_a_request_leaves_the_lease_of_a_running_job_alone"),
    ),
    Mutant(
        "job-forgets-that-it-was-forced",
        _REQUESTS,
        old='"force": {"$or": [command.force, {"$ifNull": ["$force", False]}]}',
        new='"force": command.force',
        caught_by=in_file(f"{_TESTS}/test_jobs.py", "test_a_forced_request_stays_forced_when_an_ordinary_one_follows"),
    ),
    Mutant(
        "leases-are-not-extended",
        "services/indexer/kb_indexer/consumer/job_leases.py",
        old="await self.extend(held_for=self._extension_interval)",
        new="await asyncio.sleep(0)",
        caught_by=in_file(
            f"{_TESTS}/test_jobs.py", "test_leases_are_extended_again_and_again_while_their_work_goes_on"
        ),
    ),
    Mutant(
        "leases-of-others-are-extended",
        _WORK,
        old=(
            '            "organization_id": {"$in": list({job.organization_id for job in jobs})},\n'
            '            "lease_owner": owner,\n'
        ),
        new='            "organization_id": {"$in": list({job.organization_id for job in jobs})},\n',
        caught_by=in_file(f"{_TESTS}/test_jobs.py", "test_a_lease_that_another_has_taken_is_not_extended"),
    ),
    Mutant(
        "worker-swaps-after-its-lease-was-taken",
        "services/indexer/kb_indexer/consumer/job_leases.py",
        old="                raise LeaseLost\n",
        new="                pass\n",
        caught_by=in_file(
            f"{_TESTS}/test_overload.py", "test_a_worker_whose_lease_another_has_taken_leaves_the_document_to_it"
        ),
    ),
    Mutant(
        "events-do-not-wait-for-their-batch",
        "services/indexer/kb_indexer/fan_out.py",
        old="        await self._load.until_next_batch()\n",
        new="",
        caught_by=in_file(f"{_TESTS}/test_fan_out.py", "test_while_documents_are_indexed_later_events_begin_together"),
    ),
    Mutant(
        "overload-lowers-nothing",
        "shared/kb_shared/concurrency/adaptive_limit.py",
        old="self._value = max(1.0, self._value * min(self._gentlest, max(self._sharpest, left)))",
        new="pass",
        caught_by=in_file(
            "tests/unit/indexer/test_load.py",
            "test_a_machine_that_suddenly_becomes_slow_loses_what_is_under_way_once",
        ),
    ),
    Mutant(
        "expired-transaction-is-begun-again",
        "shared/kb_shared/mongo/database.py",
        old="        if limits.have_passed(error, since=began):\n            raise",
        new="        if False:\n            raise",
        caught_by=in_file(
            "tests/integration/mongo/test_expired_transactions.py",
            "test_a_transaction_that_the_server_ended_because_of_its_age_has_expired",
        ),
    ),
    Mutant(
        "indexer-does-not-keep-its-leases",
        "services/indexer/kb_indexer/bootstrap.py",
        old="                    self.leases.run(),\n",
        new="",
        caught_by=in_file(f"{_UNIT}/test_bootstrap.py", "test_all_parts_of_the_indexer_run_until_it_stops"),
    ),
    Mutant(
        "sweeper-does-not-note-what-it-published",
        "services/indexer/kb_indexer/sweeper.py",
        old="        await index_jobs.note_published("
        "self._database, {job.key: job.publication for job in due if job.publication})\n",
        new="",
        caught_by=in_file(f"{_TESTS}/test_jobs.py", "test_a_command_published_again_is_given_time_to_be_claimed"),
    ),
    Mutant(
        "command-is-dropped-while-the-last-one-of-its-document-ends",
        "services/indexer/kb_indexer/consumer/job_leases.py",
        old="        async with self._locks.lock(key):\n",
        new="        if key in self._held:\n            yield None\n        else:\n",
        caught_by=in_file(
            f"{_TESTS}/test_waiting.py",
            "test_a_command_that_comes_while_the_last_one_of_its_document_ends_is_not_lost",
        ),
    ),
    Mutant(
        "command-is-believed-to-be-published",
        _REQUESTS,
        old='                            build_later_time("$$NOW", PUBLISH_GRACE),\n',
        new='                            build_later_time("$$NOW", UNCLAIMED_GRACE),\n',
        caught_by=in_file(
            f"{_TESTS}/test_jobs.py",
            "test_a_job_that_a_dead_indexer_opened_after_its_successor_had_done_it_is_closed_soon",
        ),
    ),
    Mutant(
        "note-counts-for-a-later-publication",
        "shared/kb_shared/mongo/index_jobs/due.py",
        old='                        "publication": str(uuid4()),\n',
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_jobs.py", "test_a_note_does_not_count_for_a_job_that_a_sweeper_has_taken_since"
        ),
    ),
    Mutant(
        "sweeper-does-not-note-what-events-published",
        "services/indexer/kb_indexer/sweeper.py",
        old="                await self._requests.note_published()\n",
        new="",
        caught_by=in_file(f"{_TESTS}/test_jobs.py", "test_a_sweeper_notes_what_was_published_some_time_ago"),
    ),
    Mutant(
        "reconciler-does-not-note-what-it-published",
        "services/reconciler/kb_reconciler/drift/sync.py",
        old="    await tools.requests.note_published(after_s=0)\n",
        new="",
        caught_by=in_file(f"{_TESTS}/test_scans.py", "test_commands_of_the_reconciler_are_given_time_to_be_claimed"),
    ),
    Mutant(
        "scan-puts-off-what-was-begun-meanwhile",
        _REQUESTS,
        old='            "$expr": {"$eq": ["$next_attempt_at", "$publish_by"]},\n',
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_scans.py",
            "test_a_job_that_was_put_off_before_its_scan_noted_its_command_as_published_is_due_when_it_says",
        ),
    ),
    Mutant(
        "probe-deletes-at-once",
        _PROBE,
        old="                await asyncio.sleep(GRACE_S)\n",
        new="",
        caught_by=in_file(
            f"{_UNIT}/test_searchable.py",
            "test_a_search_that_asked_the_index_before_it_changed_still_reads_the_replaced_chunks",
        ),
    ),
    Mutant(
        "probe-asks-one-index-only",
        _PROBE,
        old=" and await _until(partial(_found_by_words, there))",
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_documents.py",
            "test_retired_chunks_stay_while_the_text_index_does_not_know_their_successors",
        ),
    ),
    Mutant(
        "chunks-of-the-same-text-share-an-id",
        _VECTORS,
        old="occurrences[chunk.passage_hash] = n + 1",
        new="occurrences[chunk.passage_hash] = n",
        caught_by=in_file(f"{_UNIT}/test_vector_changes.py", "test_the_nth_occurrence_of_a_text_has_an_id_of_its_own"),
    ),
    Mutant(
        "chunks-are-retired-at-the-version-that-replaces-them",
        _VECTORS,
        old='"until": version - 1',
        new='"until": version',
        caught_by=in_file(f"{_UNIT}/test_vector_changes.py", "test_a_removed_chunk_is_retired_at_the_version_before"),
    ),
    Mutant(
        "what-was-indexed-unchecked-is-not-checked",
        "shared/kb_shared/membership/decision.py",
        old="    if kb.refuse_sensitive and not indexed.content_checked:\n        return Action.CHECK\n",
        new="",
        caught_by=in_file(
            f"{_UNIT}/test_membership.py",
            "test_what_was_indexed_unchecked_is_checked_once_the_knowledge_base_refuses_credentials",
        ),
    ),
    Mutant(
        "texts-that-must-be-checked-are-not-read",
        "services/indexer/kb_indexer/refuse_sensitive.py",
        old="        if with_text:\n",
        new="        if False:\n",
        caught_by=in_file(_REFUSED, "test_a_document_with_a_credential_is_refused_unpaid_until_a_version_without_one"),
    ),
    Mutant(
        "refusing-credentials-fences-nothing-off",
        "services/kb-api/kb_api/change_knowledge_base.py",
        old='    fences = retag or "refuse_sensitive" in fields\n',
        new="    fences = retag\n",
        caught_by=in_file(_REFUSED, "test_what_was_decided_before_it_was_turned_on_is_not_indexed"),
    ),
    Mutant(
        "metadata-that-come-after-the-check-are-not-checked",
        _SWAP,
        old="    if swap.kb.refuse_sensitive and chunk",
        new="    if False and chunk",
        caught_by=in_file(_REFUSED, "test_metadata_that_come_after_the_check_are_checked"),
    ),
    Mutant(
        "unchecked-versions-of-refused-documents-stay",
        _SYNC,
        old="not indexed.content_checked or (refused.is_in_text and _is_text_of(document, indexed))",
        new="refused.is_in_text and not _is_text_of(document, indexed)",
        caught_by=in_file(
            _REFUSED,
            "test_turning_it_on_takes_documents_with_a_credential_out_and_turning_it_off_brings_them_back",
        ),
    ),
    Mutant(
        "ids-of-texts-ignore-what-is-embedded-in-their-place",
        "shared/kb_shared/mongo/document_texts.py",
        old='of_text.update(b"\\x00" + embedding_text.encode())',
        new="pass",
        caught_by=in_file(_EMBEDDING_TEXTS, "test_the_id_of_a_stored_text_is_made_of_both"),
    ),
    Mutant(
        "ids-of-chunks-ignore-that-another-text-is-embedded",
        "shared/kb_shared/text/text_normalization.py",
        old="if embedding_text is not None:",
        new="if False:",
        caught_by=in_file(
            _EMBEDDING_TEXTS,
            "test_a_text_that_is_embedded_for_itself_is_another_passage_than_one_that_is_embedded_as_it_is",
        ),
    ),
    Mutant(
        "short-pages-share-a-chunk",
        "shared/kb_shared/chunking/pages.py",
        old="shorter * _SHORT_PAGE <= limit\n",
        new="False\n",
        caught_by=in_file(_PAGES, "test_short_pages_are_a_chunk_each"),
    ),
    Mutant(
        "pages-of-books-end-chunks",
        "shared/kb_shared/chunking/pages.py",
        old="shorter * _SHORT_PAGE <= limit\n                and is_worth",
        new="is_worth",
        caught_by=in_file(_PAGES, "test_pages_of_a_book_which_are_full_end_no_chunk"),
    ),
    Mutant(
        "sentences-that-go-on-over-a-page-are-cut",
        "shared/kb_shared/chunking/pages.py",
        old="text[after.start].islower() or ",
        new="",
        caught_by=in_file(_PAGES, "test_a_page_that_goes_on_is_in_one_chunk_with_the_one_before_it"),
    ),
    Mutant(
        "late-chunkers-read-positions-from-embedding-texts",
        "shared/kb_shared/chunking/chunker.py",
        old="    if config.chunker_type is ChunkerType.LATE:\n        normalized",
        new="    if False:\n        normalized",
        caught_by=in_file(_EMBEDDING_TEXTS, "test_one_chunk_shows_the_text_and_is_embedded_as_the_embedding_text"),
    ),
    Mutant(
        "rebuild-keeps-the-definitions-of-search-indexes",
        "shared/kb_shared/mongo/chunk_indexes.py",
        old='return (f"rebuild_{rebuilds}",) if rebuilds else ()',
        new="return ()",
        caught_by=in_file(_REBUILDS, "test_a_second_request_changes_nothing_until_the_first_one_is_carried_out"),
    ),
    Mutant(
        "rebuild-is-taken-for-carried-out-by-an-earlier-update",
        "shared/kb_shared/mongo/knowledge_bases.py",
        old='            "index_builds": kb.index_builds or {"$in": [0, None]},\n',
        new="",
        caught_by=in_file(_REBUILDS, "test_a_request_during_an_update_is_not_taken_for_carried_out"),
    ),
)
