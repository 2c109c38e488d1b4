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
        "only-links-are-asked",
        f"{_SERVICE}/sources/crawl.py",
        old="        await self._frontier.add([FrontierItem(start), _KNOWN])\n",
        new="        await self._frontier.add([FrontierItem(start)])\n",
        caught_by=in_file(
            f"{_TESTS}/test_kept_pages.py", "test_a_page_that_no_link_names_any_more_is_asked_for_itself"
        ),
    ),
    Mutant(
        "changed-pages-are-stored-at-once",
        f"{_SERVICE}/sources/read_pages.py",
        old="        if known is not None and known.digest != held.item.digest:\n            return read\n",
        new="",
        caught_by=in_file(
            f"{_TESTS}/test_kept_pages.py",
            "test_a_run_that_is_killed_while_it_decides_about_one_text_for_many_pages_overwrites_none",
        ),
    ),
    Mutant(
        "decision-about-one-text-is-forgotten",
        f"{_SERVICE}/store/crawl_frontier.py",
        old='"$unset": {"held": ""}}',
        new='"$unset": {"held": "", "text_digest": ""}}',
        caught_by=in_file(
            f"{_TESTS}/test_kept_pages.py",
            "test_a_run_that_is_killed_while_it_decides_about_one_text_for_many_pages_overwrites_none",
        ),
    ),
    Mutant(
        "notices-that-ask-to-be-left-out-delete-their-page",
        f"{_SERVICE}/sources/read_pages.py",
        old="        frames = self._links(item.address, replace(web, links=signs.frames))\n",
        new="        frames = self._links(item.address, replace(web, links=signs.frames))\n"
        "        if not may_be_stored:\n            return ReadItem(ItemOutcome.SKIPPED)\n",
        caught_by=in_file(
            f"{_TESTS}/test_kept_pages.py",
            "test_entries_stay_as_they_were_while_something_else_answers_for_their_pages",
        ),
    ),
    Mutant(
        "each-other-spelling-is-a-copy",
        f"{_SERVICE}/sources/read_pages.py",
        old="stored is not None and stored.digest == read.digest",
        new="stored is not None",
        caught_by=in_file(
            f"{_TESTS}/test_page_forms.py",
            "test_a_page_that_repeats_another_one_under_a_usual_spelling_has_no_entry",
        ),
    ),
    Mutant(
        "redirected-pages-are-gone",
        f"{_SERVICE}/runner/run_source.py",
        old="    if redirected.problem:\n",
        new="    if not redirected:\n",
        caught_by=in_file(
            f"{_TESTS}/test_kept_pages.py",
            "test_entries_stay_as_they_were_while_something_else_answers_for_their_pages",
        ),
    ),
    Mutant(
        "links-that-are-known-fill-the-frontier",
        f"{_SERVICE}/store/crawl_frontier.py",
        old="            del by_id[row_id]\n",
        new="            assert row_id in by_id\n",
        caught_by=in_file(f"{_TESTS}/test_kept_pages.py", "test_pages_behind_many_links_are_all_read"),
    ),
    Mutant(
        "begun-parts-are-not-known",
        f"{_SERVICE}/sources/record_item.py",
        old="        await self.known_items.put(replace(unfinished, parts=tuple({**stored, **begun}.values())))\n",
        new="        assert begun\n",
        caught_by=in_file(
            f"{_TESTS}/test_long_items.py",
            "test_no_part_is_left_over_when_a_run_is_killed_between_two_parts_and_the_page_changes_again",
        ),
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
