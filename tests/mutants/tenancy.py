"""Faults that show data of another organization: keys and scopes, references, queries without an organization."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_AUTHENTICATION: Final = "shared/kb_shared/http/authentication.py"
_KEYS: Final = "shared/kb_shared/mongo/api_keys.py"

_API: Final = "tests/integration/kb_api"
_INDEXER: Final = "tests/integration/indexer"
_SEARCH: Final = "tests/integration/search"
_ISOLATION: Final = "tests/isolation/test_routes.py"

MUTANTS: Final = (
    Mutant(
        "key-opens-every-organization",
        _AUTHENTICATION,
        old="        if caller.organization_id != organization_id:\n            raise",
        new="        if not organization_id:\n            raise",
        caught_by=in_file(_ISOLATION, "test_another_organizations_path_is_the_same_404_as_one_that_does_not_exist"),
    ),
    Mutant(
        "key-may-do-everything",
        _AUTHENTICATION,
        old="        caller.check(self._scope)\n",
        new="",
        caught_by=in_file(
            f"{_API}/test_keys_and_tags.py", "test_a_new_key_works_within_its_scopes_and_until_it_is_revoked"
        ),
    ),
    Mutant(
        "key-that-is-known-opens-every-organization",
        _AUTHENTICATION,
        old=" or stored.key.organization_id != organization_id",
        new="",
        caught_by=in_file(f"{_SEARCH}/test_optimistic.py", "test_a_key_known_to_be_right_opens_no_other_organization"),
    ),
    Mutant(
        "key-that-is-known-may-search",
        _AUTHENTICATION,
        old=" or not _caller(stored.key).has_scope(self._scope)",
        new="",
        caught_by=in_file(f"{_SEARCH}/test_optimistic.py", "test_a_key_that_may_not_search_is_refused_again_and_again"),
    ),
    Mutant(
        "key-needs-no-secret",
        _KEYS,
        old="if stored is None or not any(matches):",
        new="if stored is None:",
        caught_by=in_file(f"{_API}/test_keys_and_tags.py", "test_without_a_valid_key_it_is_401")
        + in_file(f"{_SEARCH}/test_optimistic.py", "test_a_wrong_secret_after_a_right_one_is_refused"),
    ),
    Mutant(
        "key-is-good-after-it-was-revoked",
        _KEYS,
        old="key.revoked_at is not None or (",
        new="(",
        caught_by=in_file(
            f"{_API}/test_authentication.py", "test_a_key_that_is_revoked_is_refused_by_the_next_request"
        ),
    ),
    Mutant(
        "key-does-not-expire",
        _KEYS,
        old="key.expires_at <= datetime.now(UTC)",
        new="key.expires_at <= datetime(1970, 1, 1, tzinfo=UTC)",
        caught_by=in_file(f"{_API}/test_keys_and_tags.py", "test_a_key_ends_when_it_expires")
        + in_file(f"{_SEARCH}/test_optimistic.py", "test_a_key_is_refused_when_its_time_is_over"),
    ),
    Mutant(
        "key-is-revoked-by-another-organization",
        _KEYS,
        old='{"_id": key_id, "organization_id": organization_id, "revoked_at": None}',
        new='{"_id": key_id, "revoked_at": None}',
        caught_by=in_file(f"{_API}/test_keys_and_tags.py", "test_another_organizations_key_cannot_be_revoked"),
    ),
    Mutant(
        "text-of-another-document-is-referred-to",
        "shared/kb_shared/mongo/document_texts.py",
        old="return reference.startswith(_prefix(document)) and",
        new="return",
        caught_by=in_file(
            f"{_INDEXER}/test_fan_out.py",
            "test_a_text_is_found_by_its_reference_and_by_no_other_organization_or_document",
        ),
    ),
    Mutant(
        "texts-are-read-without-their-organization",
        "shared/kb_shared/mongo/document_texts.py",
        old='find({"_id": {"$in": list(identities)}, "organization_id": organization_id})',
        new='find({"_id": {"$in": list(identities)}})',
        caught_by=in_file(f"{_INDEXER}/test_fan_out.py", "test_each_query_of_a_whole_life_names_the_organization"),
    ),
    Mutant(
        "rows-are-read-without-their-organization",
        "shared/kb_shared/mongo/document_index.py",
        old='            "organization_id": key.organization_id,\n        }\n    )\n    return {row',
        new="        }\n    )\n    return {row",
        caught_by=in_file(f"{_INDEXER}/test_fan_out.py", "test_each_query_of_a_whole_life_names_the_organization"),
    ),
    Mutant(
        "chunks-are-read-without-their-organization",
        "services/search/kb_search/store/found_chunks.py",
        old='find({**chunks.scope, "$or": filters}',
        new='find({"$or": filters}',
        caught_by=in_file(
            f"{_SEARCH}/test_tenancy_of_commands.py",
            "test_every_command_of_a_search_is_about_the_organization_of_its_key",
        ),
    ),
    Mutant(
        "kb-of-another-organization-is-searched",
        "shared/kb_shared/mongo/knowledge_bases.py",
        old='find({"_id": {"$in": list(kb_ids)}, "organization_id": organization_id})',
        new='find({"_id": {"$in": list(kb_ids)}})',
        caught_by=in_file(
            f"{_SEARCH}/test_search.py", "test_another_organizations_kb_is_the_same_404_as_one_that_never_was"
        ),
    ),
    Mutant(
        "dead-letters-are-seen-by-all",
        "shared/kb_shared/mongo/dead_letters.py",
        old='return {"organization_id": {"$in": list(visible)}}',
        new="return {}",
        caught_by=in_file(
            f"{_API}/test_dead_letters.py", "test_a_dead_letter_without_an_owner_is_seen_by_the_operators_admins_only"
        ),
    ),
    Mutant(
        "unsendable-messages-are-seen-by-all",
        "shared/kb_shared/mongo/outbox.py",
        old='return {"organization_id": {"$in": list(visible)}}',
        new="return {}",
        caught_by=in_file(
            f"{_API}/test_unsendable_messages.py", "test_another_organization_neither_sees_nor_redrives_it"
        ),
    ),
)
