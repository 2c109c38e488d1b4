"""Faults of export and import: files that leak, hostile files that are believed, imports that double or destroy."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_EXPORT: Final = "services/reconciler/kb_reconciler/export"
_TESTS: Final = "tests/integration/reconciler/test_export_import.py"
_TESTS_OF_FILES: Final = "tests/unit/reconciler/test_kbx.py"
_READER: Final = f"{_EXPORT}/kbx_reader.py"
_IMPORT: Final = f"{_EXPORT}/import_kb.py"
_MEMBERS_TEST: Final = "test_a_member_that_can_not_be_read_is_named"
_ALTERED: Final = "test_a_member_that_is_missing_or_altered_is_named"
_MAIN: Final = "test_an_imported_knowledge_base_has_the_same_chunks_and_nothing_is_embedded_or_charged"

MUTANTS: Final = (
    Mutant(
        "import-believes-checksums",
        _READER,
        old="        if self._digest.hexdigest() != self._expected:\n",
        new="        if False:\n",
        caught_by=in_file(_TESTS_OF_FILES, _ALTERED),
    ),
    Mutant(
        "import-believes-sizes",
        _READER,
        old="            if info.file_size != self.manifest.members[info.filename].bytes:\n",
        new="            if False:\n",
        caught_by=in_file(_TESTS_OF_FILES, _ALTERED),
    ),
    Mutant(
        "import-unpacks-zip-bombs",
        _READER,
        old="    if info.file_size > FREE_BYTES + MAX_RATIO * info.compress_size:\n",
        new="    if False:\n",
        caught_by=in_file(_TESTS_OF_FILES, "test_a_zip_bomb_is_refused_before_it_is_unpacked"),
    ),
    Mutant(
        "import-takes-vectors-of-nan",
        _READER,
        old="    return any(numbers) and all(map(math.isfinite, numbers))\n",
        new="    return any(numbers)\n",
        caught_by=in_file(_TESTS_OF_FILES, _MEMBERS_TEST),
    ),
    Mutant(
        "import-takes-newer-versions",
        _READER,
        old="    if version > SCHEMA_VERSION:\n",
        new="    if False:\n",
        caught_by=in_file(_TESTS_OF_FILES, "test_a_manifest_that_can_not_be_read_is_refused"),
    ),
    Mutant(
        "import-takes-a-document-twice",
        _READER,
        old="if (current := str(getattr(parsed, key))) <= previous:",
        new="if (current := str(getattr(parsed, key))) < previous:",
        caught_by=in_file(_TESTS_OF_FILES, _MEMBERS_TEST),
    ),
    Mutant(
        "import-gives-documents-the-texts-of-others",
        _READER,
        old="            if document.document_id != text.document_id:\n",
        new="            if False:\n",
        caught_by=in_file(_TESTS_OF_FILES, _MEMBERS_TEST),
    ),
    Mutant(
        "import-reuses-documents-with-other-texts",
        f"{_EXPORT}/imported_documents.py",
        old="            if before.text.text_id != self.text.identity:\n",
        new="            if False:\n",
        caught_by=in_file(_TESTS, "test_a_document_with_another_text_is_refused_by_name_before_anything_is_written"),
    ),
    Mutant(
        "import-writes-before-it-has-checked",
        _IMPORT,
        old="        counts = self._reader.manifest.counts\n        used",
        new=(
            "        await tags.put(self._database, self._request.organization_id, Tag('a', 'A'))\n"
            "        counts = self._reader.manifest.counts\n        used"
        ),
        caught_by=in_file(_TESTS, "test_a_check_writes_nothing"),
    ),
    Mutant(
        "import-leaves-deleted-documents-deleted",
        f"{_EXPORT}/imported_documents.py",
        old="            return of_file if deleted is None else max(of_file, deleted + 1)\n",
        new="            return of_file\n",
        caught_by=in_file(_TESTS, "test_a_document_that_was_deleted_comes_back"),
    ),
    Mutant(
        "import-doubles-the-knowledge-base",
        _IMPORT,
        old="            if not self._request.again and (other := await self._find_imported(session)) is not None:\n",
        new="            if (other := None) is not None:\n",
        caught_by=in_file(_TESTS, "test_a_second_import_of_a_file_finds_the_knowledge_base_of_the_first"),
    ),
    Mutant(
        "import-ignores-the-limit-of-knowledge-bases",
        _IMPORT,
        old="self._request.organization_id, session) >= limit:\n",
        new="self._request.organization_id, session) < 0:\n",
        caught_by=in_file(_TESTS, "test_what_the_organization_can_not_take_is_refused"),
    ),
    Mutant(
        "import-replaces-cached-vectors",
        "shared/kb_shared/mongo/embedding_cache.py",
        old='{"$max": extended, "$setOnInsert": row}',
        new='{"$max": extended, "$set": row}',
        caught_by=in_file(_TESTS, "test_cached_vectors_of_the_organization_are_not_replaced"),
    ),
    Mutant(
        "import-takes-unknown-models",
        _IMPORT,
        old="        if is_unknown_model(model, chunker_type=configuration.chunker_type) and not",
        new="        if False and not",
        caught_by=in_file(_TESTS, "test_what_the_organization_can_not_take_is_refused"),
    ),
    Mutant(
        "import-caches-vectors-of-another-provider",
        _IMPORT,
        old="            space = VectorSpace(self._request.organization_id, fingerprint, model",
        new='            space = VectorSpace(self._request.organization_id, "", model',
        caught_by=in_file(_TESTS, _MAIN),
    ),
    Mutant(
        "import-forgets-what-could-not-be-read",
        f"{_EXPORT}/imported_documents.py",
        old="            reading_warnings=line.reading_warnings,\n",
        new="",
        caught_by=in_file(
            _TESTS,
            "test_what_was_left_out_of_documents_is_shown_after_an_import_until_another_text_or_metadata_come",
        ),
    ),
    Mutant(
        "export-has-documents-of-other-knowledge-bases",
        f"{_EXPORT}/export_kb.py",
        old='        of_kb = {"organization_id": self._key.organization_id, "kb_id": self._key.kb_id, **query}\n',
        new='        of_kb = {"organization_id": self._key.organization_id, **query}\n',
        caught_by=in_file(_TESTS, "test_a_file_has_nothing_of_other_knowledge_bases_and_organizations"),
    ),
    Mutant(
        "export-has-documents-that-leave",
        f"{_EXPORT}/export_kb.py",
        old="not {*document.tag_ids} & {*self._kb.tag_ids}",
        new="not document.tag_ids",
        caught_by=in_file(_TESTS, "test_documents_that_are_about_to_leave_are_left_out"),
    ),
    Mutant(
        "export-has-vectors-of-other-models",
        f"{_EXPORT}/export_kb.py",
        old='            same = space.get("model") == self._kb.embedding_model\n',
        new='            same = space.get("model") is not None\n',
        caught_by=in_file(_TESTS, "test_vectors_of_an_unknown_provider_are_left_out"),
    ),
    Mutant(
        "export-reads-no-snapshot",
        f"{_EXPORT}/export_kb.py",
        old="        found = await chunks.collection.aggregate(stages, session=snapshot, allowDiskUse=True)\n",
        new="        found = await chunks.collection.aggregate(stages, allowDiskUse=True)\n",
        caught_by=in_file(_TESTS, "test_an_export_has_the_state_of_one_moment"),
    ),
)
