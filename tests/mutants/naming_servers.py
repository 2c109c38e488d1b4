"""Faults of servers that organizations and deployments run themselves."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_TESTS: Final = "tests/integration/kb_api/test_own_servers.py"
_KEYS: Final = "shared/kb_shared/providers/organization_keys.py"

MUTANTS: Final = (
    Mutant(
        "vectors-of-two-servers-are-mixed",
        "shared/kb_shared/embedding/embedder.py",
        old="            raise OtherVectors(model.name)\n",
        new="            return\n",
        caught_by=in_file(
            _TESTS, "test_vectors_of_two_models_of_one_name_are_not_mixed_and_a_server_that_moved_is_recognized"
        ),
    ),
    Mutant(
        "documents-get-vectors-of-another-model",
        "services/indexer/kb_indexer/sync_document.py",
        old="origin=origin_of(kb),",
        new="origin=None,",
        caught_by=in_file(
            "tests/integration/indexer/test_waiting.py",
            "test_a_document_waits_while_another_model_answers_under_the_name_of_the_knowledge_bases_model",
        ),
    ),
    Mutant(
        "queries-get-vectors-of-another-model",
        "services/search/kb_search/retrieval/query_vectors.py",
        old="origin=origin_of(kb),",
        new="origin=None,",
        caught_by=in_file(
            "tests/integration/search/test_provider.py",
            "test_vectors_of_another_model_of_the_same_name_are_not_searched_and_words_are",
        ),
    ),
    Mutant(
        "key-is-sent-to-another-address",
        "services/kb-api/kb_api/provider_keys.py",
        old="before is not None and before.api_base == address",
        new="before is not None",
        caught_by=in_file(_TESTS, "test_a_key_stays_with_its_address_and_is_not_sent_to_another"),
    ),
    Mutant(
        "plain-name-goes-to-any-server",
        _KEYS,
        old="        if len(servers) == 1:\n",
        new="        if servers:\n",
        caught_by=in_file(_TESTS, "test_a_plain_name_may_be_a_model_of_two_servers_and_is_asked_about"),
    ),
    Mutant(
        "default-model-may-be-any",
        _KEYS,
        old="    if catalogue.find_provider(name) is not None or len(servers) == 1:\n",
        new="    if True:\n",
        caught_by=in_file("tests/unit/test_default_models.py", "test_a_default_model_of_no_provider_names_its_setting"),
    ),
    Mutant(
        "public-site-leads-to-a-private-one",
        "services/knowledge/kb_knowledge/sources/guarded_http.py",
        old="        if await _is_public(before) and not await _is_public(after):\n",
        new="        if False:\n",
        caught_by=in_file(
            "tests/integration/knowledge/sources/test_guarded_http.py",
            "test_a_public_server_leads_to_no_private_one_also_where_users_may_name_those",
        ),
    ),
)
