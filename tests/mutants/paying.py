"""Faults of what costs: cache and ledger, answers of providers, budgets."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_CACHE: Final = "shared/kb_shared/mongo/embedding_cache.py"
_PURCHASES: Final = "shared/kb_shared/embedding/purchases.py"
_BATCH_KEY: Final = "shared/kb_shared/embedding/batch_key.py"
_BUYER: Final = "shared/kb_shared/embedding/vector_buyer.py"
_ANSWERS: Final = "shared/kb_shared/embedding/answers.py"
_BUDGETS: Final = "shared/kb_shared/mongo/budgets.py"

_TESTS: Final = "tests/integration/embedding/test_embedder.py"
_SPENDING: Final = "tests/integration/budget/test_spending.py"
_UNIT: Final = "tests/unit/embedding"

MUTANTS: Final = (
    Mutant(
        "cache-is-shared-by-organizations",
        _BATCH_KEY,
        old='scope="global" if cache_scope == "global" and model.access is None else purpose.organization_id',
        new='scope="global"',
        caught_by=in_file(_TESTS, "test_w17_no_organization_gets_what_another_paid_for"),
    ),
    Mutant(
        "cache-mixes-providers",
        _CACHE,
        old="            self.provider_fingerprint,\n            self.model,\n",
        new="            self.model,\n",
        caught_by=in_file(f"{_UNIT}/test_vector_space.py", "test_every_field_of_a_vector_space_changes_its_keys"),
    ),
    Mutant(
        "cache-mixes-queries-and-documents",
        _CACHE,
        old="            self.input_type,\n            chunk_hash,\n",
        new="            chunk_hash,\n",
        caught_by=in_file(f"{_UNIT}/test_vector_space.py", "test_every_field_of_a_vector_space_changes_its_keys"),
    ),
    Mutant(
        "cache-overwrites-what-another-paid-for",
        _CACHE,
        old='{"$setOnInsert": row}',
        new='{"$set": row}',
        caught_by=in_file(_TESTS, "test_a_call_uses_the_vectors_that_another_process_stored_after_it_began"),
    ),
    Mutant(
        "ledger-charges-what-others-have-paid-for",
        _PURCHASES,
        old="charges = _charges(new, ledger_ids",
        new="charges = _charges(rows, ledger_ids",
        caught_by=in_file(_TESTS, "test_a_call_uses_the_vectors_that_another_process_stored_after_it_began"),
    ),
    Mutant(
        "ledger-charges-the-first-for-all",
        _PURCHASES,
        old="            counts[ledger_id],\n",
        new="            len(new),\n",
        caught_by=in_file(
            _TESTS,
            "test_c6_concurrent_documents_share_requests_and_each_knowledge_base_pays_for_its_own_texts",
        ),
    ),
    Mutant(
        "ledger-charges-again-after-an-unknown-commit",
        _PURCHASES,
        old=(
            "return await embedding_cache.find_paid_by(\n"
            "            database, session, purchase.space, chunk_hashes=hashes, ledger_ids=ledger_ids.values()\n"
            "        )"
        ),
        new="return set()",
        caught_by=in_file(_TESTS, "test_a_commit_whose_answer_was_lost_charges_once"),
    ),
    Mutant(
        "ledger-says-nothing-to-billing",
        _PURCHASES,
        old="    await announce(database, session, *map(_build_announcement, charges), source=SOURCE)\n",
        new="",
        caught_by=in_file(_TESTS, "test_ledger_cache_messages_and_metrics_agree"),
    ),
    Mutant(
        "embedder-charges-every-caller-of-a-shared-text",
        "shared/kb_shared/embedding/batch_queue.py",
        old="is_first = pending is None",
        new="is_first = True",
        caught_by=in_file(_TESTS, "test_concurrent_calls_for_the_same_texts_charge_each_stored_vector_once"),
    ),
    Mutant(
        "embedder-ends-a-budget-in-the-middle",
        _BUYER,
        old="await allowance.reserve(len(missing), ",
        new="await allowance.reserve(1, ",
        caught_by=in_file(_TESTS, "test_a_hard_budget_refuses_before_the_first_call_and_is_used_to_the_last_spu"),
    ),
    Mutant(
        "embedder-keeps-the-pause-of-a-provider-to-itself",
        "shared/kb_shared/providers/provider_guard.py",
        old="                await self._limiter.close(model.bucket, error.retry_after_s)\n",
        new="                pass\n",
        caught_by=in_file(_TESTS, "test_a_pause_that_a_provider_asks_for_is_kept_by_every_replica"),
    ),
    Mutant(
        "answer-is-taken-in-any-order",
        _ANSWERS,
        old="return [by_index[index] for index in range(first, first + count)]",
        new="return list(by_index.values())",
        caught_by=in_file(
            f"{_UNIT}/test_answers.py", "test_vectors_stand_in_the_order_of_the_texts_whatever_the_order_of_the_answer"
        ),
    ),
    Mutant(
        "answer-may-be-short",
        _ANSWERS,
        old="if len(entries) != count:",
        new="if False:",
        caught_by=in_file(
            f"{_UNIT}/test_answers.py", "test_an_answer_that_is_not_one_usable_vector_per_text_is_refused"
        ),
    ),
    Mutant(
        "answer-may-hold-vectors-of-nothing",
        _ANSWERS,
        old="    _check_values(np.stack(vectors))\n",
        new="",
        caught_by=in_file(
            f"{_UNIT}/test_answers.py", "test_an_answer_that_is_not_one_usable_vector_per_text_is_refused"
        ),
    ),
    Mutant(
        "budget-does-not-count-what-is-reserved",
        _BUDGETS,
        old='{"$add": [f"${used}", {"$sum": f"$reservations.{reserved}"}, amount]}',
        new='{"$add": [f"${used}", amount]}',
        caught_by=in_file(
            _SPENDING, "test_concurrent_reservations_never_exceed_the_hard_limit_and_leave_no_room_unused"
        ),
    ),
    Mutant(
        "budget-settles-twice",
        _BUDGETS,
        old='{**_key(reservation.organization_id), "reservations.id": reservation.reservation_id}',
        new="_key(reservation.organization_id)",
        caught_by=in_file(_SPENDING, "test_settling_twice_settles_once"),
    ),
    Mutant(
        "budget-forgets-what-a-crash-may-have-spent",
        _BUDGETS,
        old='{"$sum": {"$map": {"input": _those(lapsed), "as": "each", "in": amount}}}',
        new="0",
        caught_by=in_file(_SPENDING, "test_reservations_left_by_a_crash_count_as_spent_until_a_recount"),
    ),
    Mutant(
        "budget-is-recounted-by-two-at-once",
        _BUDGETS,
        old="{**_key(organization_id), **unchanged}",
        new="_key(organization_id)",
        caught_by=in_file(_SPENDING, "test_a_recount_that_is_overtaken_by_another_changes_nothing"),
    ),
    Mutant(
        "budget-never-begins-a-month",
        _BUDGETS,
        old='{"$cond": [{"$eq": ["$month", _MONTH]}, {"$ifNull": [f"${used}", 0]}, 0]}',
        new='{"$ifNull": [f"${used}", 0]}',
        caught_by=in_file(_SPENDING, "test_a_new_month_begins_with_nothing_spent"),
    ),
)
