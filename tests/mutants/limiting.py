"""Faults of what limits an organization beside its SPUs: chat models, money, requests, quotas."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_BUDGET: Final = "shared/kb_shared/metering/budget.py"
_BUDGETS: Final = "shared/kb_shared/mongo/budgets.py"
_CHARGING: Final = "shared/kb_shared/chat/charging.py"

_SIZES: Final = "services/indexer/kb_indexer/size_limits.py"
_REQUESTS: Final = "shared/kb_shared/http/request_limits.py"
_FAILURES: Final = "shared/kb_shared/http/failed_authentications.py"
_FAIR_QUEUE: Final = "shared/kb_shared/concurrency/fair_queue.py"

_PAYING: Final = "tests/integration/chat/test_paying.py"
_WATCH: Final = "tests/integration/kb_api/test_watch_budgets.py"
_LIMITS_OF_API: Final = "tests/integration/kb_api/test_limits.py"
_NO_RIGHT_KEY: Final = "test_failed_authentications_have_a_limit_that_never_applies_to_a_valid_key"
_QUOTAS_OF_SEARCH: Final = "tests/integration/runs/test_quotas.py"
_SIZE_LIMITS: Final = "tests/integration/indexer/test_size_limits.py"

_TURNS: Final = "tests/unit/test_fair_queue.py"
_TURNS_OF_API: Final = "tests/integration/kb_api/test_fair_queue.py"
_TURNS_OF_SEARCH: Final = "tests/integration/runs/test_fair_queue.py"

_TAKE: Final = '    await limits.count_request("search", caller)\n'
_ASKED: Final = "    query, search_caller = to_query(body), _search_caller(caller, origin)\n"

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
        _CHARGING,
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
        _CHARGING,
        old="            if cost.nano_usd:\n",
        new="            if False:\n",
        caught_by=in_file(_PAYING, "test_an_answer_is_charged_with_what_it_cost_and_the_rest_is_free_again"),
    ),
    Mutant(
        "chat-model-is-charged-by-who-stays",
        _CHARGING,
        old="await asyncio.shield(self._run_in_background(self._charge(reservation, model, cost)))",
        new="await self._charge(reservation, model, cost)",
        caught_by=in_file(_PAYING, "test_a_caller_who_leaves_twice_is_charged_once"),
    ),
    Mutant(
        "unknown-price-counts-as-zero",
        _BUDGET,
        old="if not known and (await",
        new="if False and (await",
        caught_by=in_file(
            "tests/integration/budget/test_spending.py",
            "test_without_a_known_price_nothing_is_begun_under_a_budget_in_money",
        ),
    ),
    Mutant(
        "soft-limit-is-announced-by-every-replica",
        _BUDGETS,
        old="    return written.modified_count == 1\n",
        new="    return True\n",
        caught_by=in_file(
            _WATCH,
            "test_many_replicas_announce_a_soft_limit_once",
            "test_a_slow_replica_does_not_announce_a_limit_of_a_month_that_is_over",
        ),
    ),
    Mutant(
        "soft-limit-in-money-is-announced-as-that-in-spus",
        _BUDGETS,
        old='_Fields("soft_nano_usd", "used_nano_usd", "told_usd")',
        new='_Fields("soft_nano_usd", "used_nano_usd", "told")',
        caught_by=in_file(_WATCH, "test_each_soft_limit_is_announced_once_when_it_is_reached"),
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
        "services/search/kb_search/retrieval/query_vectors.py",
        old="isinstance(error, BudgetExhausted | UnknownPrice)",
        new="isinstance(error, BudgetExhausted)",
        caught_by=in_file(
            "tests/integration/search/test_provider.py",
            "test_words_do_not_answer_for_a_budget_that_has_no_room_or_a_model_without_a_price",
        ),
    ),
    Mutant(
        "request-limit-is-never-used-up",
        _REQUESTS,
        old="        if self._debt_s > BURST_S:\n",
        new="        if False:\n",
        caught_by=in_file(
            "tests/integration/http/test_request_limits.py",
            "test_requests_that_a_replica_admits_locally_count_in_the_others",
        ),
    ),
    Mutant(
        "request-limit-is-each-replicas-own",
        _REQUESTS,
        old="owed_s=posted_s, cost_s=cost_s",
        new="owed_s=0.0, cost_s=cost_s",
        caught_by=in_file(
            "tests/integration/http/test_request_limits.py",
            "test_the_last_locally_admitted_requests_are_stored_without_another_request",
        ),
    ),
    Mutant(
        "administrative-calls-have-no-limit",
        _REQUESTS,
        old='        await get_provided(request.app, RequestLimits).count_request("administration", caller)\n',
        new="",
        caught_by=in_file(_LIMITS_OF_API, "test_administrative_calls_have_a_limit_and_documents_have_none"),
    ),
    *(
        Mutant(
            f"{name}-have-no-limit",
            "services/search/kb_search/routes.py",
            old=f"{_TAKE}{_ASKED}    answer = await knowledge_base_search.{function}(",
            new=f"{_ASKED}    answer = await knowledge_base_search.{function}(",
            caught_by=in_file(
                "tests/integration/search/test_limits.py", "test_a_key_and_an_organization_have_limits_of_searches"
            ),
        )
        for name, function in (("searches", "search"), ("searches-of-several", "search_several"))
    ),
    Mutant(
        "mcp-reads-chunks-without-a-limit",
        "services/search/kb_search/mcp/tools.py",
        old='counts as a search.\n        await self._limits.count_request("search", caller)\n',
        new="counts as a search.\n",
        caught_by=in_file(
            "tests/integration/mcp/test_mcp.py", "test_calls_count_towards_the_limits_and_a_refusal_is_reported"
        ),
    ),
    Mutant(
        "runs-have-no-limit",
        "services/search/kb_search/runs/routes.py",
        old='    await limits.count_request("run", caller)\n',
        new="",
        caught_by=in_file(
            "tests/integration/runs/test_limits.py",
            "test_a_key_and_an_organization_have_limits_that_say_when_to_come_again",
        ),
    ),
    Mutant(
        "failed-authentications-have-no-limit",
        _FAILURES,
        old="        if not wait_s:\n            return failure\n",
        new="        return failure\n",
        caught_by=(
            *in_file(_LIMITS_OF_API, _NO_RIGHT_KEY),
            *in_file(
                "tests/unit/http/test_failed_authentications.py",
                "test_a_minutes_worth_may_fail_at_once_and_then_one_as_often_as_the_limit_says",
            ),
        ),
    ),
    Mutant(
        "failed-authentications-lock-out-a-right-key",
        "shared/kb_shared/http/authentication.py",
        old="        return await _authentication(request).read_key(whole_key)\n",
        new="        found = await _authentication(request).read_key(whole_key)\n"
        '        if (refusal := _failed(request, _unauthenticated(""), None)).status == 429:\n'
        "            raise refusal\n"
        "        return found\n",
        caught_by=in_file(_LIMITS_OF_API, _NO_RIGHT_KEY),
    ),
    Mutant(
        "prompts-have-no-quota",
        "services/search/kb_search/authoring/prompt_routes.py",
        old="    await checks.require_prompt_quota(caller)\n",
        new="",
        caught_by=in_file(_QUOTAS_OF_SEARCH, "test_beyond_the_limit_one_has_to_be_deleted_first"),
    ),
    Mutant(
        "agents-have-no-quota",
        "services/search/kb_search/authoring/agent_routes.py",
        old="    await checks.require_agent_quota(caller)\n",
        new="",
        caught_by=in_file(_QUOTAS_OF_SEARCH, "test_beyond_the_limit_one_has_to_be_deleted_first"),
    ),
    Mutant(
        "conversations-have-no-quota",
        "services/search/kb_search/runs/routes.py",
        old="        settings.max_threads,\n",
        new="        0,\n",
        caught_by=in_file(_QUOTAS_OF_SEARCH, "test_beyond_the_limit_one_has_to_be_deleted_first"),
    ),
    Mutant(
        "api-keys-have-no-quota",
        "services/kb-api/kb_api/routes/api_keys.py",
        old="        settings.max_api_keys,\n",
        new="        0,\n",
        caught_by=in_file(_LIMITS_OF_API, "test_beyond_the_limit_of_keys_one_has_to_be_revoked_first"),
    ),
    Mutant(
        "tags-have-no-quota",
        "services/kb-api/kb_api/routes/tags.py",
        old="            settings.max_tags,\n",
        new="            0,\n",
        caught_by=in_file(
            _LIMITS_OF_API, "test_beyond_the_limit_of_tags_none_is_made_and_those_that_are_there_can_be_renamed"
        ),
    ),
    Mutant(
        "tags-of-documents-have-no-quota",
        "services/kb-api/kb_api/document_tags.py",
        old="            await self._require_quota(organization_id, new=len(new))\n",
        new="",
        caught_by=in_file(
            _LIMITS_OF_API,
            "test_beyond_the_limit_of_tags_no_document_brings_new_ones_and_those_with_known_tags_are_taken",
        ),
    ),
    Mutant(
        "large-bodies-are-parsed-on-the-event-loop",
        "shared/kb_shared/http/routing.py",
        old="await large_bodies.thread.work(organization_id, validate) if is_large else validate()",
        new="validate()",
        caught_by=in_file(
            "tests/integration/kb_api/test_before_the_body.py", "test_only_large_bodies_are_parsed_in_another_thread"
        ),
    ),
    Mutant(
        "stored-texts-have-no-quota",
        "services/kb-api/kb_api/store_text.py",
        old="    await stored_bytes.require_quota(organization_id)\n",
        new="",
        caught_by=in_file(
            _LIMITS_OF_API, "test_beyond_the_limit_of_stored_bytes_no_text_is_taken_and_other_changes_are"
        ),
    ),
    Mutant(
        "texts-of-documents-have-no-quota",
        "services/kb-api/kb_api/publish_document_event.py",
        old="            await self._stored_bytes.require_quota(event.organization_id)\n",
        new="            pass\n",
        caught_by=in_file(
            _LIMITS_OF_API, "test_beyond_the_limit_of_stored_bytes_no_text_is_taken_and_other_changes_are"
        ),
    ),
    Mutant(
        "documents-of-a-knowledge-base-have-no-quota",
        _SIZES,
        old="size.documents >= self._max_documents and indexed is None",
        new="False",
        caught_by=in_file(_SIZE_LIMITS, "test_a_document_beyond_the_limit_fails_unpaid_and_those_inside_still_change"),
    ),
    Mutant(
        "chunks-of-a-knowledge-base-have-no-quota",
        _SIZES,
        old="chunks > own and others + chunks > self._max_chunks",
        new="False",
        caught_by=in_file(
            _SIZE_LIMITS, "test_a_document_whose_chunks_have_no_room_fails_unpaid_and_a_smaller_one_does_not"
        ),
    ),
    Mutant(
        "full-knowledge-base-refuses-what-does-not-grow",
        _SIZES,
        old="chunks > own and others + chunks",
        new="others + chunks",
        caught_by=in_file(
            _SIZE_LIMITS, "test_a_document_whose_chunks_have_no_room_fails_unpaid_and_a_smaller_one_does_not"
        ),
    ),
    Mutant(
        "full-knowledge-base-stays-full-for-a-retry",
        _SIZES,
        old="        size = await self._count(kb)\n",
        new="        size = await self._size(kb)\n",
        caught_by=in_file(_SIZE_LIMITS, "test_a_document_that_failed_is_indexed_by_a_retry_once_there_is_room"),
    ),
    Mutant(
        "organization-has-all-turns",
        _FAIR_QUEUE,
        old="return self._max_active if self.others_call(organization_id)",
        new="return self._max_active if False",
        caught_by=in_file(
            _TURNS, "test_while_another_organization_calls_few_requests_are_processed_and_the_others_wait"
        ),
    ),
    Mutant(
        "organization-that-pauses-is-forgotten",
        _FAIR_QUEUE,
        old="organization.called_at >= oldest",
        new="False",
        caught_by=in_file(_TURNS, "test_an_organization_is_alone_again_when_the_others_have_not_called_for_some_time"),
    ),
    Mutant(
        "turn-of-a-caller-who-left-is-lost",
        _FAIR_QUEUE,
        old="if not woken.cancelled():",
        new="if False:",
        caught_by=in_file(_TURNS, "test_a_caller_who_leaves_in_the_moment_of_its_turn_gives_it_to_the_next"),
    ),
    Mutant(
        "part-of-a-request-waits-for-another-turn",
        _FAIR_QUEUE,
        old="if _current.get() is not None:",
        new="if False:",
        caught_by=in_file(_TURNS, "test_parts_of_a_request_share_its_turn"),
    ),
    Mutant(
        "request-that-goes-on-waits-behind-new-ones",
        _FAIR_QUEUE,
        old="await self._queue.enter(self._organization_id, is_first=True)",
        new="await self._queue.enter(self._organization_id, is_first=False)",
        caught_by=in_file(_TURNS, "test_a_request_that_waits_for_a_provider_lets_another_one_be_processed"),
    ),
    Mutant(
        "request-after-a-failed-provider-has-no-turn",
        _FAIR_QUEUE,
        old="        pausing.cancel()\n        await turn.resume()\n        raise\n",
        new="        raise\n",
        caught_by=in_file(_TURNS, "test_a_failure_of_a_provider_is_handled_in_the_requests_turn"),
    ),
    Mutant(
        "route-takes-no-turn",
        "shared/kb_shared/http/routing.py",
        old="get_provided(request.app, FairQueue).take_turn(organization_id)",
        new="get_provided(request.app, FairQueue).take_turn(request.url.path)",
        caught_by=(
            *in_file(_TURNS_OF_API, "test_a_request_waits_for_the_turn_of_its_organization_and_those_of_others_do_not"),
            *in_file(_TURNS_OF_SEARCH, "test_a_search_waits_for_the_turn_of_its_organization"),
        ),
    ),
    Mutant(
        "run-takes-no-turn",
        "services/search/kb_search/runs/conduct_run.py",
        old="self._fair_queue.take_turn(plan.organization_id)",
        new="self._fair_queue.take_turn(plan.run_id)",
        caught_by=in_file(
            _TURNS_OF_SEARCH, "test_a_run_goes_on_after_an_answer_of_its_model_when_it_has_its_turn_again"
        ),
    ),
    Mutant(
        "mcp-takes-no-turn",
        "services/search/kb_search/mcp/tools.py",
        old="self._fair_queue.take_turn(caller.organization_id)",
        new="self._fair_queue.take_turn(name)",
        caught_by=in_file(_TURNS_OF_SEARCH, "test_a_search_waits_for_the_turn_of_its_organization"),
    ),
    Mutant(
        "search-keeps-its-turn-while-it-waits-for-a-vector",
        "services/search/kb_search/retrieval/query_vectors.py",
        old="async with pause_turn(), asyncio.timeout(within_s):",
        new="async with asyncio.timeout(within_s):",
        caught_by=in_file(
            _TURNS_OF_SEARCH, "test_while_the_vector_of_a_query_is_waited_for_another_search_is_answered"
        ),
    ),
    Mutant(
        "run-keeps-its-turn-while-a-model-thinks",
        "services/search/kb_search/runs/run_execution.py",
        old="            async with pause_turn():\n",
        new="            async with pause_turn(after_s=600):\n",
        caught_by=in_file(_TURNS_OF_SEARCH, "test_while_a_model_thinks_a_search_is_answered"),
    ),
    Mutant(
        "creation-keeps-its-turn-while-a-provider-is-asked",
        "services/kb-api/kb_api/create_knowledge_base.py",
        old="        async with pause_turn():\n",
        new="        async with pause_turn(after_s=600):\n",
        caught_by=in_file(
            _TURNS_OF_API, "test_while_a_provider_is_asked_for_a_new_knowledge_base_other_requests_are_processed"
        ),
    ),
)
