"""Faults of the reconciler: drift that is not found, repairs that harm, leaders that do not give way."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_RECONCILER: Final = "services/reconciler/kb_reconciler"
_DRIFT: Final = f"{_RECONCILER}/drift"
_PASSES: Final = f"{_RECONCILER}/passes.py"
_RECONCILE: Final = f"{_RECONCILER}/reconcile.py"
_PLANS: Final = f"{_RECONCILER}/plans.py"
_STORED_PLANS: Final = "shared/kb_shared/mongo/reconcile_plans.py"
_TESTS: Final = "tests/integration/indexer/test_drift.py"
_TESTS_OF_VECTORS: Final = "tests/integration/indexer/test_vector_drift.py"
_TESTS_OF_PLANS: Final = "tests/integration/indexer/test_reconcile_plans.py"
_TESTS_OF_DEPLOYMENT: Final = "tests/integration/reconciler/test_deployment.py"
_FOUND: Final = "test_drift_is_found_repaired_and_not_found_again"

_NEVER: Final = '{"$eq": [1, 2]}'

_CONDITIONS: Final = {
    "missing": '{"$and": [HAS_DOCUMENT, HAS_NO_ROW]}',
    "stale": '{"$and": [HAS_ROW, {"$ne": ["$document.alive", True]}]}',
    "wrong_config": '{"$ne": ["$row.config_hash", kb.config_hash]}',
    "stale_text": '            {"$ne": ["$row.content_digest", "$document.text_id"]},\n',
    "stale_snapshot": '            {"$ne": ["$row.snapshot_digest", "$document.chunk_metadata_digest"]},\n',
    "incomplete": '                    {"$ne": ["$row.chunk_count", {"$ifNull": ["$chunks.live", 0]}]},\n',
}
"""Part of the condition of each kind that its drift is found by."""


_FOUND_BY: Final = {
    "incomplete": "test_a_row_from_before_the_digest_is_compared_by_the_number_of_chunks",
    "stale_text": "test_the_comparison_on_the_server_finds_what_the_decision_finds",
}
"""Tests of the parts above, where another part of the condition finds what the general test plants."""


def _without_condition(kind: str) -> Mutant:
    old = _CONDITIONS[kind]
    return Mutant(
        f"reconciler-does-not-find-{kind.replace('_', '-')}",
        f"{_DRIFT}/{kind}.py",
        old=old,
        new="" if old.endswith("\n") else _NEVER,
        caught_by=in_file(_TESTS, _FOUND_BY.get(kind, _FOUND)),
    )


MUTANTS: Final = (
    *(_without_condition(kind) for kind in _CONDITIONS),
    Mutant(
        "reconciler-does-not-find-orphan-vectors",
        f"{_DRIFT}/orphan_vectors.py",
        old="    return HAS_NO_ROW\n",
        new=f"    return {_NEVER}\n",
        caught_by=in_file(_TESTS, _FOUND),
    ),
    Mutant(
        "reconciler-does-not-find-unsound-vectors",
        f"{_DRIFT}/bad_vector.py",
        old='                    {"$gt": ["$chunks.unsound", 0]},\n',
        new="",
        caught_by=in_file(_TESTS_OF_VECTORS, "test_a_row_from_before_the_digest_shows_vectors_that_are_no_vectors"),
    ),
    Mutant(
        "reconciler-does-not-find-an-index-that-is-behind",
        f"{_DRIFT}/search_index.py",
        old="    return await _needs_repair(database, kb) or await find_lag(database, kb) > 0\n",
        new="    return await _needs_repair(database, kb)\n",
        caught_by=in_file(
            "tests/integration/reconciler/test_search_index.py",
            "test_a_text_index_that_lacks_chunks_for_long_is_reported_and_left_to_mongodb",
        ),
    ),
    Mutant(
        "digest-of-vectors-is-not-compared",
        f"{_DRIFT}/bad_vector.py",
        old='{"$ne": ["$row.vectors_digest", {"$ifNull": ["$chunks.digest", 0]}]}',
        new=_NEVER,
        caught_by=in_file(_TESTS_OF_VECTORS, "test_a_damaged_vector_is_found_and_taken_from_the_cache"),
    ),
    Mutant(
        "damaged-vectors-stay-in-the-cache",
        f"{_DRIFT}/bad_vector.py",
        old="        await _discard_unsound(tools.database, kb, document_id)\n",
        new="        pass\n",
        caught_by=in_file(_TESTS_OF_VECTORS, "test_a_vector_that_is_damaged_in_the_cache_too_is_paid_for_once_more"),
    ),
    Mutant(
        "reconciler-does-not-find-missing-embeddings",
        f"{_DRIFT}/vector_comparison.py",
        old="        await self._look_up()\n        return",
        new="        return",
        caught_by=in_file(_TESTS, _FOUND),
    ),
    Mutant(
        "cache-is-filled-from-damaged-chunks",
        f"{_DRIFT}/missing_embedding.py",
        old="vectors.has_content_of_id(chunk, kb.text_normalization) and is_sound(",
        new="is_sound(",
        caught_by=in_file(
            _TESTS_OF_VECTORS, "test_a_chunk_that_is_not_what_its_id_says_is_not_trusted_but_indexed_again"
        ),
    ),
    Mutant(
        "damaged-rows-are-kept-by-a-swap",
        "shared/kb_shared/mongo/vectors.py",
        old="            if not _has_content(row, content):\n                fields |= content\n",
        new="",
        caught_by=in_file(_TESTS_OF_VECTORS, "test_a_damaged_vector_is_found_and_taken_from_the_cache"),
    ),
    Mutant(
        "digest-of-chunks-is-not-compared",
        f"{_DRIFT}/incomplete.py",
        old='{"$ne": ["$row.chunks_digest", {"$ifNull": ["$chunks.digest", 0]}]}',
        new=_NEVER,
        caught_by=in_file(_TESTS, "test_an_exchanged_chunk_is_found_although_the_number_of_chunks_is_right"),
    ),
    Mutant(
        "digest-of-an-older-version-is-trusted",
        f"{_DRIFT}/stale_snapshot.py",
        old='            {"$ne": ["$document.digested_version", "$document.projection_version"]},\n',
        new="",
        caught_by=in_file(
            _TESTS, "test_a_document_that_an_older_replica_changed_is_compared_although_its_digest_is_unchanged"
        ),
    ),
    Mutant(
        "retired-chunks-count-as-live",
        f"{_DRIFT}/comparisons.py",
        old='{"$lte": ["$until", None]}',
        new='{"$eq": [1, 1]}',
        caught_by=in_file(_TESTS, "test_a_chunk_that_changed_makes_its_document_incomplete"),
    ),
    Mutant(
        "documents-with-a-job-have-drift",
        f"{_DRIFT}/comparisons.py",
        old='        {"$match": {"job": None}},\n',
        new="",
        caught_by=in_file(_TESTS, "test_a_document_with_a_job_has_no_drift"),
    ),
    Mutant(
        "slices-of-jobs-have-no-end",
        f"{_RECONCILER}/slices.py",
        old='bounds: Row = {"$gt": f"{kb_id}/", "$lt": f"{kb_id}0"}',
        new='bounds: Row = {"$gt": kb_id}',
        caught_by=in_file(_TESTS, "test_a_knowledge_base_is_not_mixed_up_with_one_whose_id_continues_its_own"),
    ),
    Mutant(
        "recent-changes-are-drift",
        f"{_DRIFT}/confirmation.py",
        old="document_id not in changed and ",
        new="",
        caught_by=in_file(_TESTS, "test_a_document_that_changed_within_the_grace_period_is_left_alone"),
    ),
    Mutant(
        "digests-are-not-corrected",
        f"{_DRIFT}/confirmation.py",
        old=(
            "    await documents.correct_digests(database, kb.organization_id,"
            " document_ids=found.keys() - actions.keys())\n"
        ),
        new="",
        caught_by=in_file(_TESTS, "test_documents_from_before_the_digest_are_compared_once_and_then_have_one"),
    ),
    Mutant(
        "orphans-are-deleted-although-the-document-was-indexed",
        f"{_DRIFT}/orphan_vectors.py",
        old="        if row is None:\n",
        new="        if True:\n",
        caught_by=in_file(_TESTS, "test_chunks_of_a_document_that_was_indexed_meanwhile_are_no_orphans"),
    ),
    Mutant(
        "reconciler-has-no-brake",
        _RECONCILE,
        old="        if removals <= MAX_REMOVED:\n            return False\n",
        new="        if True:\n            return False\n",
        caught_by=in_file(_TESTS, "test_more_removals_than_a_number_and_a_share_of_a_knowledge_base_are_not_made"),
    ),
    Mutant(
        "brake-does-not-count-orphans",
        f"{_DRIFT}/orphan_vectors.py",
        old=", removes=True",
        new="",
        caught_by=in_file(_TESTS, "test_the_brake_counts_documents_and_orphans_together_and_lets_other_repairs_pass"),
    ),
    Mutant(
        "reconciler-floods-a-knowledge-base-with-jobs",
        _RECONCILE,
        old="        return max(0, BACKLOG_LIMIT - open_jobs)\n",
        new="        return 10 * BACKLOG_LIMIT\n",
        caught_by=in_file(_TESTS, "test_drift_that_exceeds_the_backlog_is_left_for_the_next_pass"),
    ),
    Mutant(
        "knowledge-bases-that-are-scanned-are-compared",
        _PASSES,
        old="            if kb.status is not Status.ACTIVE:\n",
        new="            if False:\n",
        caught_by=in_file(_TESTS, "test_a_knowledge_base_that_is_being_scanned_is_left_alone_and_compared_afterwards"),
    ),
    Mutant(
        "counters-are-set-over-a-swap",
        "shared/kb_shared/mongo/kb_slots.py",
        old='            "writes": counters.writes or {"$in": [0, None]},\n',
        new="",
        caught_by=in_file(_TESTS, "test_counters_that_a_swap_has_written_since_they_were_read_are_read_again"),
    ),
    Mutant(
        "incremental-pass-forgets-knowledge-bases-that-have-the-document",
        f"{_RECONCILER}/changes.py",
        old="                    or any(row.kb_id == kb.kb_id for row in rows.get(document_id, ()))\n",
        new="",
        caught_by=in_file(
            _TESTS, "test_an_incremental_pass_finds_drift_of_documents_that_changed_in_every_knowledge_base"
        ),
    ),
    Mutant(
        "unfinished-knowledge-bases-are-forgotten",
        _PASSES,
        old="        if state.unfinished:\n",
        new="        if False:\n",
        caught_by=in_file(_TESTS, "test_drift_that_exceeds_the_backlog_is_left_for_the_next_pass"),
    ),
    Mutant(
        "leftovers-are-deleted-at-once",
        f"{_RECONCILER}/leftovers.py",
        old="            if now - since < grace:\n",
        new="            if False:\n",
        caught_by=in_file(
            _TESTS, "test_leftovers_of_a_knowledge_base_are_deleted_after_the_grace_period_and_others_stay"
        ),
    ),
    Mutant(
        "leftovers-are-not-remembered",
        _PASSES,
        old=", leftovers=leftovers.first_found",
        new="",
        caught_by=in_file(_TESTS, "test_a_full_pass_remembers_leftovers_for_the_next"),
    ),
    Mutant(
        "old-leader-stores-its-state",
        f"{_RECONCILER}/state.py",
        old='    saved = await database[NAME].update_one({"_id": _ID, "token": state.token}, {"$set": fields})\n',
        new='    saved = await database[NAME].update_one({"_id": _ID}, {"$set": fields})\n',
        caught_by=in_file(_TESTS, "test_a_leader_that_was_replaced_stores_nothing_and_ends_its_pass"),
    ),
    Mutant(
        "pass-goes-on-without-the-lease",
        _PASSES,
        old="        await still_leader()\n",
        new="",
        caught_by=in_file(_TESTS, "test_a_pass_ends_when_its_replica_is_no_longer_the_leader"),
    ),
    Mutant(
        "dry-run-repairs",
        _RECONCILE,
        old="        return not self.dry_run and (self.approved is None or repair in self.approved)\n",
        new="        return self.approved is None or repair in self.approved\n",
        caught_by=in_file(_TESTS_OF_PLANS, "test_a_dry_run_lists_drift_and_changes_nothing_until_it_is_applied"),
    ),
    Mutant(
        "applied-plan-repairs-what-it-does-not-list",
        _RECONCILE,
        old="        return not self.dry_run and (self.approved is None or repair in self.approved)\n",
        new="        return not self.dry_run\n",
        caught_by=in_file(_TESTS_OF_PLANS, "test_an_applied_plan_repairs_what_it_lists_and_nothing_else"),
    ),
    Mutant(
        "stopped-pass-stores-a-plan-each-time",
        _PASSES,
        old=(
            "        if await reconcile_plans.find_open_stop(self.database, kb.organization_id, kb_id=kb.kb_id)"
            " is not None:\n"
        ),
        new="        if False:\n",
        caught_by=in_file(_TESTS_OF_PLANS, "test_a_pass_that_stops_stores_one_plan_however_often_it_comes_by"),
    ),
    Mutant(
        "plan-of-a-dead-reconciler-is-forgotten",
        _STORED_PLANS,
        old='                {"state": PlanState.RUNNING, "$expr": {"$lt": ["$lease_until", "$$NOW"]}},\n',
        new="",
        caught_by=in_file(_TESTS_OF_PLANS, "test_a_plan_whose_reconciler_died_is_executed_by_another"),
    ),
    Mutant(
        "reconciler-finishes-a-plan-that-it-lost",
        _STORED_PLANS,
        old='        "lease_owner": owner,\n    }\n',
        new="    }\n",
        caught_by=in_file(_TESTS_OF_PLANS, "test_a_reconciler_that_lost_its_plan_stores_no_outcome"),
    ),
    Mutant(
        "plan-that-fails-ends-its-reconciler",
        _PLANS,
        old="        except Exception as error:\n",
        new="        except ZeroDivisionError as error:\n",
        caught_by=in_file(_TESTS_OF_PLANS, "test_a_plan_that_fails_says_so_and_is_not_tried_again"),
    ),
    Mutant(
        "job-of-a-living-worker-is-released",
        "shared/kb_shared/mongo/index_jobs/due.py",
        old='                {"$expr": {"$lt": ["$lease_until", "$$NOW"]}},\n                {"$expr": {"$gt"',
        new='                {"lease_owner": {"$exists": True}},\n                {"$expr": {"$gt"',
        caught_by=in_file(_TESTS_OF_DEPLOYMENT, "test_a_job_that_a_worker_has_taken_since_is_not_released"),
    ),
    Mutant(
        "failed-knowledge-base-is-retried-without-a-pause",
        "shared/kb_shared/mongo/knowledge_bases.py",
        old='"$expr": {"$lt": ["$retry_at", "$$NOW"]}',
        new='"name": {"$exists": True}',
        caught_by=in_file(
            _TESTS_OF_DEPLOYMENT, "test_a_failed_knowledge_base_goes_on_with_new_indexes_and_with_pauses"
        ),
    ),
    Mutant(
        "budget-with-a-reservation-is-recounted",
        "shared/kb_shared/mongo/budgets.py",
        old='"reservations": [], **_HAS_A_LIMIT}',
        new="**_HAS_A_LIMIT}",
        caught_by=in_file(_TESTS_OF_DEPLOYMENT, "test_a_budget_with_a_reservation_is_left_alone"),
    ),
)
