"""Faults of the runner of sources: items lost or deleted when it is killed, and secrets that stay under an old key."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_SERVICE: Final = "services/knowledge/kb_knowledge"
_TESTS: Final = "tests/integration/knowledge/sources"

MUTANTS: Final = (
    Mutant(
        "item-in-flight-is-forgotten",
        f"{_SERVICE}/store/crawl_frontier.py",
        old='"state": {"$in": [_TAKEN, _WAITING]}',
        new='"state": {"$in": [_WAITING]}',
        caught_by=in_file(
            f"{_TESTS}/test_runner_is_killed.py",
            "test_a_run_that_is_killed_at_every_failpoint_fetches_a_page_once_and_once_more_for_each_kill",
        ),
    ),
    Mutant(
        "partial-run-deletes",
        f"{_SERVICE}/runner/run_source.py",
        old="        if outcome.status is SourceRunStatus.OK:\n",
        new="        if outcome.status:\n",
        caught_by=in_file(f"{_TESTS}/test_runner_is_killed.py", "test_a_partial_run_that_is_killed_deletes_nothing"),
    ),
    Mutant(
        "headers-stay-under-the-old-key",
        f"{_SERVICE}/store/mcp_servers.py",
        old='    unchanged = {**server.key.to_query(), "headers.nonce": server.headers.nonce}\n',
        new='    unchanged = {**server.key.to_query(), "headers.nonce": sealed.nonce}\n',
        caught_by=in_file(
            f"{_TESTS}/test_mcp_source.py", "test_headers_are_encrypted_with_a_new_key_and_the_old_one_can_go"
        ),
    ),
    Mutant(
        "private-address-counts-as-unreachable",
        "shared/kb_shared/providers/public_transport.py",
        old="    return isinstance(error.__cause__, _NotPublicAddress)\n",
        new="    return isinstance(error, _NotPublicAddress)\n",
        caught_by=in_file(
            "tests/unit/knowledge/test_refused_addresses.py",
            "test_an_address_of_a_page_is_counted_once",
            "test_an_address_of_an_mcp_server_is_counted_once",
        ),
    ),
)
