"""Faults of what limits an organization beside its SPUs: chat models, money, requests, quotas."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_BUDGET: Final = "shared/kb_shared/budget.py"
_BUDGETS: Final = "shared/kb_shared/mongo/budgets.py"
_PURSE: Final = "shared/kb_shared/chat/purse.py"

_PAYING: Final = "tests/integration/chat/test_paying.py"
_WATCH: Final = "tests/integration/kb_api/test_watch_budgets.py"

MUTANTS: Final = (
    Mutant(
        "chat-model-may-be-any",
        "shared/kb_shared/chat/models.py",
        old="if self._allowed is not None and not is_allowed",
        new="if False and not is_allowed",
        caught_by=in_file(
            "tests/integration/runs/test_allowed_models.py",
            "test_a_model_that_is_not_allowed_is_refused_wherever_it_is_named",
        ),
    ),
    Mutant(
        "chat-model-is-asked-without-room",
        _PURSE,
        old="reserve(organization_id, 0, nano_usd=dearest)",
        new="reserve(organization_id, 0, nano_usd=min(dearest or 0, 1))",
        caught_by=in_file(
            _PAYING,
            "test_a_model_is_not_asked_when_its_dearest_answer_has_no_room",
            "test_however_many_ask_at_once_a_month_never_costs_more_than_its_hard_limit",
        ),
    ),
    Mutant(
        "chat-model-is-not-charged",
        _PURSE,
        old="            if payment.nano_usd:\n",
        new="            if False:\n",
        caught_by=in_file(_PAYING, "test_an_answer_is_charged_with_what_it_cost_and_the_rest_is_free_again"),
    ),
    Mutant(
        "chat-model-is-charged-by-who-stays",
        _PURSE,
        old="await asyncio.shield(self._keep(self._charge(reservation, model, payment)))",
        new="await self._charge(reservation, model, payment)",
        caught_by=in_file(_PAYING, "test_a_caller_who_leaves_twice_is_charged_once"),
    ),
    Mutant(
        "price-that-nobody-knows-is-nothing",
        _BUDGET,
        old="if not known and (await",
        new="if False and (await",
        caught_by=in_file(
            "tests/integration/budget/test_spending.py",
            "test_without_a_known_price_nothing_is_begun_under_a_budget_in_money",
        ),
    ),
    Mutant(
        "soft-limit-is-told-of-by-every-replica",
        _BUDGETS,
        old="    return written.modified_count == 1\n",
        new="    return True\n",
        caught_by=in_file(
            _WATCH,
            "test_however_many_replicas_look_at_once_it_is_told_once",
            "test_a_replica_that_was_slow_does_not_tell_of_a_month_that_is_over",
        ),
    ),
    Mutant(
        "soft-limit-in-money-is-told-as-that-in-spus",
        _BUDGETS,
        old='_Fields("soft_nano_usd", "used_nano_usd", "told_usd")',
        new='_Fields("soft_nano_usd", "used_nano_usd", "told")',
        caught_by=in_file(_WATCH, "test_each_soft_limit_is_told_of_once_when_it_is_reached"),
    ),
    Mutant(
        "first-limit-in-money-belongs-to-an-earlier-month",
        _BUDGETS,
        old='[{"$set": row}, *_tidy(), {"$set": fields}]',
        new='[{"$set": {**row, "month": {"$ifNull": ["$month", _MONTH]}}}, {"$set": fields}]',
        caught_by=in_file(
            "tests/integration/budget/test_spending.py",
            "test_a_first_limit_in_money_counts_this_month_though_the_row_is_of_an_earlier_one",
        ),
    ),
    Mutant(
        "words-answer-for-a-model-without-a-price",
        "services/search/kb_search/query_vectors.py",
        old="isinstance(error, BudgetExhausted | UnknownPrice)",
        new="isinstance(error, BudgetExhausted)",
        caught_by=in_file(
            "tests/integration/search/test_provider.py",
            "test_words_do_not_answer_for_a_budget_that_has_no_room_or_a_model_without_a_price",
        ),
    ),
)
