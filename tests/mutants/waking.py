"""Faults of what lets idle processes wait: signals of work, the watch that gives them, the proxy before the broker."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_SIGNAL: Final = "shared/kb_shared/concurrency/work_signal.py"
_WATCH: Final = "shared/kb_shared/mongo/work_watch.py"
_INDEXER: Final = "services/indexer/kb_indexer/bootstrap.py"
_KB_API: Final = "services/kb-api/kb_api/bootstrap.py"
_PLANS: Final = "shared/kb_shared/mongo/reconcile_plans.py"
_PROXY: Final = "local/kb_local/broker_proxy/connections.py"

_SIGNALS: Final = "tests/unit/test_work_signal.py"
_WATCHING: Final = "tests/integration/mongo/test_work_watch.py"
_WIRING: Final = "tests/integration/service/test_work_signals.py"
_WAKES_INDEXER: Final = "test_an_idle_indexer_is_woken_by_messages_and_backfills_of_other_processes"
_WAKES_KB_API: Final = "test_an_idle_kb_api_is_woken_by_messages_and_knowledge_bases_of_other_processes"
_WAKES_RECONCILER: Final = "test_an_idle_reconciler_is_woken_by_plans_that_are_requested_and_approved"
_PROXYING: Final = "tests/unit/test_broker_proxy.py"

MUTANTS: Final = (
    Mutant(
        "signal-between-two-pauses-is-lost",
        _SIGNAL,
        old="        with suppress(TimeoutError):\n",
        new="        self._event.clear()\n        with suppress(TimeoutError):\n",
        caught_by=in_file(_SIGNALS, "test_a_signal_between_two_pauses_ends_the_next_one"),
    ),
    Mutant(
        "pause-trusts-signals-that-may-be-lost",
        _SIGNAL,
        old=" or not self._signal.is_reliable",
        new="",
        caught_by=in_file(_SIGNALS, "test_a_task_whose_signal_may_be_lost_polls_often_for_ever"),
    ),
    Mutant(
        "pause-may-last-for-ever",
        _SIGNAL,
        old="longest_s: float = LONGEST_IDLE_S",
        new='longest_s: float = float("inf")',
        caught_by=in_file(_SIGNALS, "test_a_task_waits_long_when_it_has_found_nothing_for_a_while"),
    ),
    Mutant(
        "pause-is-long-right-after-work",
        _SIGNAL,
        old="    def _stay_awake(self) -> None:\n        self._awake_until = monotonic() + STAYS_AWAKE_S",
        new="    def _stay_awake(self) -> None:\n        self._awake_until = monotonic()",
        caught_by=in_file(
            _SIGNALS,
            "test_a_task_waits_long_when_it_has_found_nothing_for_a_while",
            "test_a_task_that_is_woken_polls_often_for_a_while",
        ),
    ),
    Mutant(
        "watch-wakes-no-task-when-it-begins",
        _WATCH,
        old="            self._wake(self._signals)\n",
        new="",
        caught_by=in_file(_WATCHING, "test_a_watch_that_begins_wakes_all_tasks"),
    ),
    Mutant(
        "watch-seems-reliable-while-it-is-interrupted",
        _WATCH,
        old="            finally:\n                self._set_reliable(now=False)\n",
        new=(
            "            except asyncio.CancelledError:\n"
            "                self._set_reliable(now=False)\n"
            "                raise\n"
        ),
        caught_by=in_file(_WATCHING, "test_tasks_are_woken_and_poll_often_while_a_watch_is_interrupted"),
    ),
    Mutant(
        "watch-wakes-no-task-when-it-is-interrupted",
        _WATCH,
        old="long pause.\n                signal.wake()\n",
        new="long pause.\n                pass\n",
        caught_by=in_file(_WATCHING, "test_tasks_are_woken_and_poll_often_while_a_watch_is_interrupted"),
    ),
    Mutant(
        "watch-waits-for-ever-for-an-answer",
        _WATCH,
        old="asyncio.timeout(_LATE_AFTER_S)",
        new="asyncio.timeout(None)",
        caught_by=in_file(_WATCHING, "test_an_answer_that_does_not_come_interrupts_the_watch"),
    ),
    Mutant(
        "watch-wakes-for-every-change-of-a-collection",
        _WATCH,
        old='{"ns.coll": name, **condition}',
        new='{"ns.coll": name}',
        caught_by=in_file(
            _WATCHING,
            "test_work_wakes_the_task_that_does_it_and_other_changes_wake_none",
            "test_a_change_of_status_wakes_the_life_cycle_and_a_change_of_counters_does_not",
        ),
    ),
    Mutant(
        "watch-misses-messages-that-are-sent-again",
        "shared/kb_shared/mongo/outbox.py",
        old='    {"updateDescription.updatedFields.sent_at": {"$type": "null"}},\n',
        new="",
        caught_by=in_file(_WATCHING, "test_work_wakes_the_task_that_does_it_and_other_changes_wake_none"),
    ),
    Mutant(
        "indexer-does-not-wake-its-relay",
        _INDEXER,
        old=", signal=messages)",
        new=")",
        caught_by=in_file(_WIRING, _WAKES_INDEXER),
    ),
    Mutant(
        "indexer-does-not-wake-its-backfills",
        _INDEXER,
        old=", signal=scans)",
        new=")",
        caught_by=in_file(_WIRING, _WAKES_INDEXER),
    ),
    Mutant(
        "kb-api-does-not-wake-its-relay",
        _KB_API,
        old=", signal=self.outbox_signal\n",
        new="\n",
        caught_by=in_file(_WIRING, _WAKES_KB_API),
    ),
    Mutant(
        "kb-api-does-not-wake-its-life-cycle",
        _KB_API,
        old="            knowledge_bases_rows.NAME: (self.life_cycle.signal, knowledge_bases_rows.WORK),\n",
        new="",
        caught_by=in_file(_WIRING, _WAKES_KB_API),
    ),
    Mutant(
        "reconciler-is-not-woken-by-approvals",
        _PLANS,
        old='    {"operationType": "update", "updateDescription.updatedFields.state": "approved"},\n',
        new="",
        caught_by=in_file(_WIRING, _WAKES_RECONCILER),
    ),
    Mutant(
        "proxy-keeps-fetches-although-there-is-news",
        _PROXY,
        old="            self._news.announce()\n",
        new="            pass\n",
        caught_by=in_file(
            _PROXYING,
            "test_a_fetch_that_repeats_the_last_one_waits_until_something_is_produced",
            "test_only_the_answer_to_what_may_add_records_lets_fetches_go_on",
        ),
    ),
    Mutant(
        "proxy-mixes-up-answers",
        _PROXY,
        old=(
            "        if correlation_id in self.unanswered:\n"
            "            while self.unanswered.popleft() != correlation_id:\n"
            "                pass\n"
        ),
        new="        if self.unanswered:\n            self.unanswered.popleft()\n",
        caught_by=in_file(_PROXYING, "test_only_the_answer_to_what_may_add_records_lets_fetches_go_on"),
    ),
    Mutant(
        "proxy-holds-fetches-longer-than-allowed",
        _PROXY,
        old="min(fetch.max_wait_s, max(SHORTEST_WAIT_S, WAIT_PER_QUIET * quiet_s))",
        new="max(SHORTEST_WAIT_S, WAIT_PER_QUIET * quiet_s)",
        caught_by=in_file(_PROXYING, "test_a_fetch_waits_no_longer_than_its_client_allows"),
    ),
    Mutant(
        "proxy-lets-the-broker-misread-newer-clients",
        "local/kb_local/broker_proxy/requests.py",
        old="version > _NEWEST_API_VERSIONS",
        new="False",
        caught_by=in_file(
            _PROXYING, "test_a_client_that_is_newer_than_the_broker_asks_for_versions_again_as_an_older_one"
        ),
    ),
    Mutant(
        "proxy-gives-the-broker-no-time-to-find-records",
        _PROXY,
        old="fetch.waiting_for(max(SHORTEST_LOOK_S, look_s))",
        new="fetch.waiting_for(SHORTEST_LOOK_S)",
        caught_by=in_file(_PROXYING, "test_the_broker_may_look_for_records_longer_the_longer_no_position_has_changed"),
    ),
    Mutant(
        "proxy-lets-requests-overtake-a-fetch",
        _PROXY,
        old="        self._continue_fetch()\n        if may_add_records",
        new="        if may_add_records",
        caught_by=in_file(_PROXYING, "test_a_waiting_fetch_goes_before_the_next_request_of_its_connection"),
    ),
    Mutant(
        "proxy-reads-a-fetch-before-its-end",
        _PROXY,
        old="            if len(self._received) < SIZE_BYTES + size:\n                return False\n",
        new="",
        caught_by=in_file(_PROXYING, "test_a_fetch_that_comes_in_parts_is_one_fetch"),
    ),
    Mutant(
        "proxy-outlives-one-of-its-sides",
        _PROXY,
        old="        self._is_closed = True\n        self.other.close()\n",
        new="        self._is_closed = True\n",
        caught_by=in_file(
            _PROXYING,
            "test_a_client_that_leaves_closes_its_connection_to_the_broker",
            "test_a_broker_that_leaves_closes_the_connections_of_its_clients",
        ),
    ),
    Mutant(
        "proxy-stores-what-a-client-does-not-read",
        _PROXY,
        old="        self.other.set_reading(on=False)\n",
        new="        pass\n",
        caught_by=in_file(_PROXYING, "test_a_client_that_reads_slowly_holds_up_the_broker_and_loses_nothing"),
    ),
)
