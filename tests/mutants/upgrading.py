"""Faults of an update: old code on new data, migrations made twice or not to their end, requests that are cut off."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_SCHEMA_VERSION: Final = "shared/kb_shared/mongo/schema_version.py"
_MIGRATIONS: Final = "services/reconciler/kb_reconciler/migrations"
_TESTS: Final = "tests/integration/mongo/test_schema_version.py"
_TESTS_OF_MIGRATIONS: Final = "tests/integration/reconciler/test_migrations.py"
_OF_EACH_SERVICE: Final = in_file(_TESTS, "test_each_service_refuses_to_start_on_data_that_is_too_new_for_it")


def _without_check(service: str, file: str, line: str) -> Mutant:
    return Mutant(f"{service}-starts-on-data-that-is-too-new", file, old=line, new="", caught_by=_OF_EACH_SERVICE)


MUTANTS: Final = (
    Mutant(
        "old-code-works-with-data-that-is-too-new",
        _SCHEMA_VERSION,
        old="    if stored.oldest_reader > SCHEMA_VERSION:\n",
        new="    if stored.oldest_reader > SCHEMA_VERSION + 1:\n",
        caught_by=(
            *in_file(
                _TESTS,
                "test_code_older_than_the_oldest_reader_refuses_the_data_with_what_to_do",
                "test_two_neighbouring_versions_start_in_any_order_and_the_one_before_them_does_not",
            ),
            *_OF_EACH_SERVICE,
        ),
    ),
    _without_check(
        "kb-api",
        "services/kb-api/kb_api/bootstrap.py",
        "        if not await process.retry_until_done(stop, self._check_data, note=self._readiness.wait_for):\n"
        "            return\n",
    ),
    _without_check(
        "search", "services/search/kb_search/bootstrap.py", "            await schema_version.check(database)\n"
    ),
    _without_check(
        "indexer-or-reconciler",
        "shared/kb_shared/service/connections.py",
        "            with mongo_errors():\n                await schema_version.check(database)\n",
    ),
    Mutant(
        "old-data-is-taken-for-new",
        _SCHEMA_VERSION,
        old="BEFORE_VERSIONS if await _was_used(database) else SCHEMA_VERSION",
        new="SCHEMA_VERSION",
        caught_by=in_file(_TESTS, "test_a_database_that_was_used_before_there_were_versions_has_version_1"),
    ),
    Mutant(
        "version-of-the-data-is-overwritten-at-a-start",
        _SCHEMA_VERSION,
        old='{"$setOnInsert": fields}',
        new='{"$set": fields}',
        caught_by=in_file(
            _TESTS, "test_data_that_another_process_has_just_written_does_not_make_a_new_database_an_old_one"
        ),
    ),
    Mutant(
        "new-code-does-not-raise-the-oldest-reader",
        _SCHEMA_VERSION,
        old='{"$max": {"oldest_reader": OLDEST_READER}}',
        new='{"$min": {"oldest_reader": OLDEST_READER}}',
        caught_by=in_file(
            _TESTS,
            "test_new_code_raises_the_oldest_reader_before_any_migration",
            "test_two_neighbouring_versions_start_in_any_order_and_the_one_before_them_does_not",
        ),
    ),
    Mutant(
        "migration-is-made-without-the-lease",
        f"{_MIGRATIONS}/migrate.py",
        old="        if not await self.find_pending() or not await self._acquire():\n",
        new="        if not await self.find_pending():\n",
        caught_by=in_file(
            _TESTS_OF_MIGRATIONS,
            "test_of_two_reconcilers_one_makes_a_migration_and_the_other_waits_for_it",
            "test_a_migration_whose_reconciler_was_killed_is_finished_by_another",
        ),
    ),
    Mutant(
        "reconciler-continues-a-migration-that-it-lost",
        f"{_MIGRATIONS}/stored_progress.py",
        old='    query = {"_id": ID, f"migrations.{migration.version}.owner": owner}\n',
        new='    query = {"_id": ID}\n',
        caught_by=in_file(_TESTS_OF_MIGRATIONS, "test_a_reconciler_that_lost_its_migration_stores_nothing_more"),
    ),
    Mutant(
        "migration-begins-again-after-a-crash",
        f"{_MIGRATIONS}/stored_progress.py",
        old='.get("marker")',
        new='.get("no marker")',
        caught_by=in_file(
            _TESTS_OF_MIGRATIONS,
            "test_a_migration_whose_reconciler_died_is_resumed_after_its_last_complete_batch",
        ),
    ),
    Mutant(
        "version-of-the-data-is-raised-when-a-migration-begins",
        f"{_MIGRATIONS}/stored_progress.py",
        old='f"{fields}.name": migration.name,',
        new='f"{fields}.name": migration.name, "schema_version": migration.version,',
        caught_by=in_file(
            _TESTS_OF_MIGRATIONS,
            "test_a_migration_whose_reconciler_died_is_resumed_after_its_last_complete_batch",
            "test_a_migration_whose_reconciler_was_killed_is_finished_by_another",
        ),
    ),
    Mutant(
        "migration-creates-collections",
        f"{_MIGRATIONS}/chunk_indexes.py",
        old="    if not await collection.index_information():\n        return\n",
        new="",
        caught_by=in_file(
            _TESTS_OF_MIGRATIONS,
            "test_the_collection_of_a_knowledge_base_that_is_being_created_or_deleted_is_not_created",
        ),
    ),
    Mutant(
        "stopping-server-closes-idle-connections-at-once",
        "shared/kb_shared/http/protocol.py",
        old="            self.loop.call_later(LAST_REQUEST_WAIT_S, self._end_if_idle)\n",
        new="            self._end_if_idle()\n",
        caught_by=in_file(
            "tests/integration/http/test_server.py",
            "test_a_request_that_arrives_while_the_server_stops_is_answered",
        ),
    ),
    Mutant(
        "runs-are-cut-off-as-requests",
        "services/search/kb_search/__main__.py",
        old="grace_s=settings.run_max_seconds + server.GRACE_S",
        new="grace_s=server.GRACE_S",
        caught_by=in_file(
            "tests/unit/search/test_end_of_search.py",
            "test_a_run_that_has_begun_has_time_for_all_that_it_may_take",
        ),
    ),
)
