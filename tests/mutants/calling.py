"""Faults in what each call may rely on: batches, pages by cursor, repeated requests, and the audit log."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_HTTP: Final = "shared/kb_shared/http"
_MONGO: Final = "shared/kb_shared/mongo"
_SERVICE: Final = "services/kb-api/kb_api"
_ENTRIES: Final = f"{_SERVICE}/carry_out_entries.py"
_CURSORS: Final = f"{_HTTP}/cursors.py"
_IDEMPOTENCY: Final = f"{_HTTP}/idempotency.py"
_KEYS: Final = f"{_MONGO}/idempotency_keys.py"
_AUDIT: Final = f"{_HTTP}/audit.py"

_TESTS: Final = "tests/integration/kb_api"
_ACTIONS: Final = f"{_TESTS}/test_knowledge_base_batches.py"
_DOCUMENTS: Final = f"{_TESTS}/test_document_contents.py"
_OF_BATCHES: Final = in_file(
    _ACTIONS, "test_each_entry_has_the_effect_of_its_own_call_and_a_bad_one_does_not_affect_the_others"
) + in_file(_DOCUMENTS, "test_a_bad_document_of_a_batch_does_not_refuse_the_others")
_AFTER_FAILURE: Final = in_file(
    _ACTIONS, "test_what_was_done_before_a_failure_of_the_database_stays_and_the_rest_is_not_tried"
)
_SIGNING: Final = "tests/unit/http/test_cursors.py"
_PAGES: Final = f"{_TESTS}/test_cursors.py"
_REPEATING: Final = f"{_TESTS}/test_idempotency.py"
_TAKEN_OVER: Final = in_file(_REPEATING, "test_a_request_whose_key_was_taken_over_has_no_effect")
_RECORDING: Final = f"{_TESTS}/test_audit.py"
_LISTED: Final = in_file(_RECORDING, "test_calls_that_change_something_are_listed_with_who_what_and_outcome")

_BATCHES: Final = (
    Mutant(
        "batch-has-outcomes-in-another-order",
        _ENTRIES,
        old="outcomes.append(refuse(each, _problem(error)))",
        new="outcomes.insert(0, refuse(each, _problem(error)))",
        caught_by=_OF_BATCHES,
    ),
    Mutant(
        "batch-is-refused-because-of-one-entry",
        _ENTRIES,
        old="        except RequestError as error:\n",
        new="        except RequestError as error:\n            if len(sent) > 1:\n                raise\n",
        caught_by=_OF_BATCHES,
    ),
    Mutant(
        "batch-repeats-an-id-that-is-none",
        _ENTRIES,
        old="return given if isinstance(given, str) and is_identifier(given) else None",
        new="return given if isinstance(given, str) else None",
        caught_by=_OF_BATCHES,
    ),
    Mutant(
        "batch-goes-on-after-a-failure",
        _ENTRIES,
        old="            failure = error\n",
        new="",
        caught_by=_AFTER_FAILURE,
    ),
    Mutant(
        "batch-hides-what-was-done-before-a-failure",
        _ENTRIES,
        old="        except (TransientError, Parked) as error:\n",
        new="        except Parked as error:\n",
        caught_by=_AFTER_FAILURE,
    ),
    Mutant(
        "batch-checks-nothing-after-a-failure",
        _ENTRIES,
        old="            entry = parse(each)\n            if failure is not None:\n                raise failure\n",
        new="            if failure is not None:\n                raise failure\n            entry = parse(each)\n",
        caught_by=_AFTER_FAILURE,
    ),
    Mutant(
        "batch-acts-on-knowledge-bases-of-other-keys",
        f"{_SERVICE}/act_on_knowledge_bases.py",
        old="    caller.require_knowledge_base(kb_id)\n",
        new="",
        caught_by=in_file(
            "tests/isolation/test_limited_keys.py", "test_a_limited_key_acts_on_its_knowledge_bases_only"
        ),
    ),
    Mutant(
        "batch-ignores-revisions",
        f"{_SERVICE}/accept_documents.py",
        old="publisher.publish(event, revision=change.revision, answer=accepted)",
        new="publisher.publish(event, revision=None, answer=accepted)",
        caught_by=in_file(
            _DOCUMENTS,
            "test_a_bad_document_of_a_batch_does_not_refuse_the_others",
            "test_tags_of_several_documents_are_replaced_by_a_batch_without_their_texts",
        ),
    ),
)

_PAGED: Final = (
    Mutant(
        "cursor-is-not-signed",
        _CURSORS,
        old="        if not any(hmac.compare_digest(signature, _sign(key, scope, position)) for key in self._keys):\n",
        new="        if len(signature) < _SIGNATURE_BYTES:\n",
        caught_by=in_file(
            _SIGNING,
            "test_a_cursor_is_of_one_list_with_its_filters_and_of_one_organization",
            "test_a_cursor_that_was_changed_is_refused",
        )
        + in_file(_PAGES, "test_a_cursor_is_of_one_list_and_one_organization_and_goes_without_skip"),
    ),
    Mutant(
        "cursor-is-of-any-organization",
        _CURSORS,
        old="json.dumps([scope.organization_id, scope.name, filters, position])",
        new="json.dumps([scope.name, filters, position])",
        caught_by=in_file(_SIGNING, "test_a_cursor_is_of_one_list_with_its_filters_and_of_one_organization")
        + in_file("tests/isolation/test_references.py", "test_a_cursor_of_another_organization_is_refused"),
    ),
    Mutant(
        "cursor-is-of-any-list",
        _CURSORS,
        old="json.dumps([scope.organization_id, scope.name, filters, position])",
        new="json.dumps([scope.organization_id, filters, position])",
        caught_by=in_file(_SIGNING, "test_a_cursor_is_of_one_list_with_its_filters_and_of_one_organization"),
    ),
    Mutant(
        "cursor-is-for-any-position",
        _CURSORS,
        old="json.dumps([scope.organization_id, scope.name, filters, position])",
        new="json.dumps([scope.organization_id, scope.name, filters])",
        caught_by=in_file(_SIGNING, "test_a_cursor_that_was_changed_is_refused"),
    ),
    Mutant(
        "cursor-ends-with-its-pepper",
        _CURSORS,
        old="for key in self._keys):",
        new="for key in self._keys[:1]):",
        caught_by=in_file(_SIGNING, "test_a_cursor_of_a_former_pepper_is_good_as_long_as_its_keys_are"),
    ),
    Mutant(
        "page-of-documents-repeats-the-last-one-before",
        f"{_SERVICE}/documents_of_organization.py",
        old='return {"_id": {is_later: row_id}}',
        new='return {"_id": {f"{is_later}e": row_id}}',
        caught_by=in_file(
            _PAGES,
            "test_documents_are_paged_in_any_order_also_those_without_a_name_and_with_equal_ones",
            "test_a_page_shows_nothing_twice_when_something_is_added_before_it",
        ),
    ),
    Mutant(
        "page-of-letters-repeats-the-last-one-before",
        f"{_MONGO}/time_position.py",
        old='{time_field: self.at, "_id": {"$gt": row_id}}',
        new='{time_field: self.at, "_id": {"$gte": row_id}}',
        caught_by=in_file(_PAGES, "test_jobs_dead_letters_and_unsendable_messages_are_paged"),
    ),
)

_REPEATED: Final = (
    Mutant(
        "repeated-request-may-have-another-body",
        _IDEMPOTENCY,
        old='    digest.update(b"\\n" + body)\n',
        new="",
        caught_by=in_file(_REPEATING, "test_a_key_is_of_one_request_and_of_one_organization"),
    ),
    Mutant(
        "repeated-request-may-have-another-path",
        _IDEMPOTENCY,
        old="(request.method, request.url.path, request.url.query, caller_id)",
        new="(request.method, request.url.query, caller_id)",
        caught_by=in_file(_REPEATING, "test_a_repeated_job_is_the_first_one"),
    ),
    Mutant(
        "repeated-request-may-be-of-another-caller",
        _IDEMPOTENCY,
        old="(request.method, request.url.path, request.url.query, caller_id)",
        new="(request.method, request.url.path, request.url.query)",
        caught_by=in_file(_REPEATING, "test_a_key_is_of_one_request_and_of_one_organization"),
    ),
    Mutant(
        "idempotency-key-is-of-all-organizations",
        _KEYS,
        old='return f"{self.organization_id}/{hashlib.sha256(self.given.encode()).hexdigest()}"',
        new="return hashlib.sha256(self.given.encode()).hexdigest()",
        caught_by=in_file(_REPEATING, "test_a_key_is_of_one_request_and_of_one_organization"),
    ),
    Mutant(
        "effect-without-the-lease",
        _KEYS,
        old='update_one({**_key(key), "owner": owner}, {"$set": fenced}, session=session)',
        new='update_one(_key(key), {"$set": fenced}, session=session)',
        caught_by=_TAKEN_OVER,
    ),
    Mutant(
        "lease-never-ends",
        _KEYS,
        old='{"$lt": ["$until", "$$NOW"]}',
        new='{"$lt": ["$until", 0]}',
        caught_by=_TAKEN_OVER,
    ),
    Mutant(
        "another-request-takes-over-a-key",
        _KEYS,
        old='                    {"$eq": ["$request_hash", {"$literal": request_hash}]},\n',
        new="",
        caught_by=_TAKEN_OVER,
    ),
    Mutant(
        "secret-is-stored-for-repeated-requests",
        _KEYS,
        old=', "answer.is_final": {"$ne": True}}',
        new="}",
        caught_by=in_file(_REPEATING, "test_the_secret_of_an_api_key_is_not_stored_for_a_repeated_request"),
    ),
)

_RECORDED: Final = (
    Mutant(
        "failed-calls-are-not-recorded",
        _AUDIT,
        old="            await recorder.finish(status)\n",
        new="            pass\n",
        caught_by=_LISTED + in_file(_RECORDING, "test_a_change_is_not_made_without_its_entry"),
    ),
    Mutant(
        "calls-are-recorded-without-their-key",
        _AUDIT,
        old="key_id=caller.key_id",
        new='key_id=""',
        caught_by=_LISTED,
    ),
    Mutant(
        "audit-log-is-of-all-organizations",
        f"{_MONGO}/audit_log.py",
        old='query: Row = {"organization_id": organization_id}',
        new="query: Row = {}",
        caught_by=_LISTED,
    ),
    Mutant(
        "change-that-was-undone-is-recorded",
        _AUDIT,
        old="audit_log.store(self.database, entry, session=session)",
        new="audit_log.store(self.database, entry)",
        caught_by=_TAKEN_OVER,
    ),
    Mutant(
        "repeated-request-is-recorded-again",
        _AUDIT,
        old="    if idempotency.REPLAYED not in response.headers:\n",
        new="    if response.headers is not None:\n",
        caught_by=in_file(_RECORDING, "test_a_repeated_request_is_one_entry"),
    ),
    Mutant(
        "page-of-the-audit-log-repeats-the-last-one-before",
        f"{_MONGO}/audit_log.py",
        old='query["_id"] = {"$lt": before}',
        new='query["_id"] = {"$lte": before}',
        caught_by=in_file(_RECORDING, "test_pages_follow_a_cursor_that_is_of_this_organization_and_these_filters"),
    ),
)

MUTANTS: Final = (*_BATCHES, *_PAGED, *_REPEATED, *_RECORDED)
