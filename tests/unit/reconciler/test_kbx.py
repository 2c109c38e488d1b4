"""A file is read only if it is what docs/reference/kbx.md says; anything else is refused by name."""

import json
import math
import random
import struct
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_api import create_knowledge_base
from kb_api.settings import ApiSettings
from kb_contracts.api.knowledge_bases import CreateKnowledgeBase
from kb_reconciler.export import kbx
from kb_reconciler.export.id_mapping import IdMapping
from kb_reconciler.export.kbx import FileConfiguration, KbxManifest, UnreadableFile
from kb_reconciler.export.kbx_reader import KbxReader
from kb_reconciler.export.kbx_writer import KbxWriter
from kb_reconciler.export.model_names import is_unknown_model
from kb_reconciler.export.settings import TransferSettings
from tests.docs.commands import parse_blocks
from tests.unit.reconciler import kbx_files
from tests.unit.reconciler.kbx_files import HASHES, MAX_TEXT_BYTES, document, lines, members, text, vector, write


def read(path: Path) -> dict[str, Any]:
    """Read all members, as the check of an import does."""
    with KbxReader(path, max_text_bytes=MAX_TEXT_BYTES) as reader:
        found: dict[str, Any] = {"configuration": reader.configuration(), "tags": [*reader.tags()]}
        if reader.has_documents:
            found["documents"] = [*reader.documents()]
        if reader.has_vectors:
            found["vectors"] = [*reader.vectors()]
        return found


def test_the_example_of_the_reference_reads_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[3] / "docs/reference/kbx.md"
    (example,) = [block for block in parse_blocks(page.read_text()) if block.language == "python"]
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(compile(example.text, page.name, "exec"), found)
    assert found["texts"] == {"d1": "harvest", "d2": "harvest"}
    assert {chunk_hash: [*row] for chunk_hash, row in found["vectors"].items()} == {
        HASHES[0]: [1, 2],
        HASHES[1]: [3, 4],
    }


def test_the_reference_names_all_members_and_fields() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/kbx.md").read_text()
    models = (
        KbxManifest,
        FileConfiguration,
        kbx.FileCounts,
        kbx.TagLine,
        kbx.DocumentLine,
        kbx.TextLine,
        kbx.VectorLine,
    )
    names = {name for model in models for name in model.model_fields} | {*kbx.MEMBERS["full"]}
    assert {name for name in names if f"`{name}`" not in page} == set()


def with_member(name: str, data: bytes) -> dict[str, bytes]:
    return {**members(), name: data}


def test_a_sound_file_is_read(tmp_path: Path) -> None:
    found = read(write(tmp_path))
    assert [line.tag_id for line in found["tags"]] == ["a"]
    assert [(line.document_id, body.text) for line, body in found["documents"]] == [
        ("d1", "harvest"),
        ("d2", "harvest"),
    ]
    assert [(line.chunk_hash, struct.unpack("<2f", row)) for line, row in found["vectors"]] == [
        (HASHES[0], (1, 2)),
        (HASHES[1], (3, 4)),
    ]


BAD_MEMBERS = {
    "not JSON": ("documents.jsonl", lines(document("d1")) + b"{\n", "documents.jsonl line 2"),
    "not UTF-8": ("tags.jsonl", b'{"tag_id": "\xff", "name": null}\n', "tags.jsonl line 1"),
    "deep": ("tags.jsonl", b"[" * 9_000 + b"\n", "tags.jsonl line 1"),
    "long line": ("tags.jsonl", b'{"tag_id": "a", "name": null' + b" " * 20_000 + b"}\n", "tags.jsonl line 1: longer"),
    "empty line": ("tags.jsonl", b"\n", "tags.jsonl line 1"),
    "bad id of a tag": ("tags.jsonl", lines({"tag_id": "a/b", "name": None}), "tags.jsonl line 1: tag_id"),
    "NUL in a name": ("tags.jsonl", lines({"tag_id": "a", "name": "\0"}), "tags.jsonl line 1: name"),
    "bad id": ("documents.jsonl", lines(document("a:b"), document("d2")), "documents.jsonl line 1: document_id"),
    "a document twice": (
        "documents.jsonl",
        lines(document("d1"), document("d1")),
        "documents.jsonl line 2: document_id",
    ),
    "one document": ("documents.jsonl", lines(document("d1")), "documents.jsonl has 1 lines, and manifest.json says 2"),
    "unknown field": ("documents.jsonl", lines(document(x=1), document("d2")), "documents.jsonl line 1: x"),
    "large revision": ("documents.jsonl", lines(document(text_revision=2**63), document("d2")), "text_revision"),
    "metadata without revision": ("documents.jsonl", lines(document(metadata={}), document("d2")), "metadata_revision"),
    "NaN": (
        "documents.jsonl",
        lines(document(metadata={"a": math.nan}, metadata_revision=1), document("d2")),
        "documents.jsonl line 1",
    ),
    "text of another": ("texts.jsonl", lines(text("d1"), text("d3")), "texts.jsonl line 2: the text of another"),
    "text too large": ("texts.jsonl", lines(text("d1"), text("d2", text="ä" * 501)), "'d2' has more than 1000 bytes"),
    "lone surrogate": ("texts.jsonl", b'{"document_id": "d1", "text": "\\ud800", "pages": []}\n', "texts.jsonl line 1"),
    "pages outside": (
        "texts.jsonl",
        lines(text("d1", pages=[{"page": 1, "start": 0, "end": 8}]), text("d2")),
        "the pages of document 'd1'",
    ),
    "hashes out of order": ("vectors.jsonl", lines(*map(vector, reversed(HASHES))), "vectors.jsonl line 2: chunk_hash"),
    "bad hash": ("vectors.jsonl", lines(vector("0"), vector(HASHES[1])), "vectors.jsonl line 1: chunk_hash"),
    "NaN vector": ("vectors.f32", struct.pack("<4f", 1, 2, 3, math.nan), "vectors.f32 row 2"),
    "infinite vector": ("vectors.f32", struct.pack("<4f", math.inf, 2, 3, 4), "vectors.f32 row 1"),
    "zero vector": ("vectors.f32", bytes(16), "vectors.f32 row 1"),
    "short vectors": ("vectors.f32", bytes(15), "vectors.f32 does not have 2 rows of 8 bytes"),
    "other dimensions": (
        "knowledge_base.json",
        json.dumps(kbx_files.CONFIGURATION | {"embedding_dimensions": 3}).encode(),
        "knowledge_base.json: embedding_dimensions differs",
    ),
    "unknown chunker": (
        "knowledge_base.json",
        json.dumps(kbx_files.CONFIGURATION | {"chunker_type": "magic"}).encode(),
        "knowledge_base.json: chunker_type",
    ),
    "no room beside the overlap": (
        "knowledge_base.json",
        json.dumps(kbx_files.CONFIGURATION | {"chunk_overlap": 190}).encode(),
        "chunk_overlap",
    ),
    "bytes after the configuration": (
        "knowledge_base.json",
        json.dumps(kbx_files.CONFIGURATION).encode() + b" " * 1_000_001,
        "knowledge_base.json has more than",
    ),
}


@pytest.mark.parametrize("fault", BAD_MEMBERS)
def test_a_member_that_can_not_be_read_is_named(fault: str, tmp_path: Path) -> None:
    name, data, expected = BAD_MEMBERS[fault]
    with pytest.raises(UnreadableFile) as refused:
        read(write(tmp_path, with_member(name, data)))
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


BAD_MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"format": "tar"}, "manifest.json names another format"),
    "newer version": ({"schema_version": 4}, "schema version 4, and this version of kb reads up to 3: update kb"),
    "no version": ({"schema_version": None}, "manifest.json has no schema_version"),
    "unknown contents": ({"contents": "some"}, "manifest.json: contents"),
    "fewer members": ({"contents": "config-only"}, "has members other than manifest.json, knowledge_base.json"),
    "negative count": ({"counts": {"tags": -1}}, "manifest.json: counts.tags"),
    "dimensions": ({"embedding_dimensions": 10**9}, "manifest.json: embedding_dimensions"),
}


@pytest.mark.parametrize("fault", BAD_MANIFESTS)
def test_a_manifest_that_can_not_be_read_is_refused(fault: str, tmp_path: Path) -> None:
    fields, expected = BAD_MANIFESTS[fault]
    with pytest.raises(UnreadableFile, match=expected):
        read(write(tmp_path, described=kbx_files.manifest(members(), **fields)))


@pytest.mark.parametrize("name", members())
def test_a_member_that_is_missing_or_altered_is_named(name: str, tmp_path: Path) -> None:
    whole = kbx_files.manifest(members())
    without = {other: data for other, data in members().items() if other != name}
    with pytest.raises(UnreadableFile, match=f"{name} is missing"):
        read(write(tmp_path, without, described=whole))
    data = members()[name]
    altered = data.replace(b"d1", b"d0").replace(b'"A"', b'"B"').replace(b"KB", b"BK").replace(b"0123", b"3210")
    altered = struct.pack("<4f", 1, 2, 3, 5) if name == "vectors.f32" else altered
    if name == "texts.jsonl":
        altered = data.replace(b"harvest", b"HARVEST")
    if name == "documents.jsonl":
        altered = data.replace(b"a.pdf", b"b.pdf")
    with pytest.raises(UnreadableFile, match=f"{name} was altered"):
        read(write(tmp_path, with_member(name, altered), described=whole))
    with pytest.raises(UnreadableFile, match=f"{name} has another size"):
        read(write(tmp_path, with_member(name, data + b"\n"), described=whole))


def test_what_is_no_kbx_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kb.kbx"
    with pytest.raises(UnreadableFile, match="can't be opened"):
        read(path)
    path.write_bytes(b"PK")
    with pytest.raises(UnreadableFile, match="is not a zip file"):
        read(path)
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("../evil", "")
    with pytest.raises(UnreadableFile, match="has no manifest"):
        read(path)
    with pytest.raises(UnreadableFile, match="has members other than"):
        read(write(tmp_path, {**members(), "../evil": b""}))


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_reconciler.export.kbx_reader.FREE_BYTES", 1_000)
    with pytest.raises(UnreadableFile, match=r"texts[.]jsonl unpacks to more than 100 times its size"):
        read(write(tmp_path, with_member("texts.jsonl", b" " * 1_000_000)))


@given(seed=st.integers(0, 2**32), flips=st.integers(1, 20))
def test_a_damaged_file_is_refused_or_read_as_it_was(
    seed: int, flips: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = write(folder)
    expected = read(path)
    damaged = bytearray(path.read_bytes())
    chance = random.Random(seed)
    for _ in range(flips):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    path.write_bytes(damaged)
    with suppress(UnreadableFile):
        # The manifest is not covered by a checksum; all else is.
        assert read(path) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(name=st.sampled_from(sorted(members())), written=st.lists(json_values | st.binary(max_size=20), max_size=3))
def test_any_other_content_is_refused_by_the_name_of_its_member(
    name: str, written: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in written)
    with pytest.raises(UnreadableFile, match=name):
        read(write(tmp_path_factory.mktemp("other"), with_member(name, data)))


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "kb.kbx"
    with pytest.raises(ZeroDivisionError), KbxWriter(path) as writer, writer.member("tags.jsonl"):
        raise ZeroDivisionError
    assert [*tmp_path.iterdir()] == []
    with KbxWriter(path) as writer:
        for name, data in members().items():
            with writer.member(name) as member:
                member.write(data)
        described = kbx_files.manifest(members(), members={})
        writer.finish(KbxManifest.model_validate(described).model_copy(update={"members": writer.members}))
    assert read(path)["configuration"].name == "KB"
    assert [*tmp_path.iterdir()] == [path]
    with pytest.raises(UnreadableFile, match="can't be written"), KbxWriter(tmp_path / "no folder" / "kb.kbx"):
        pass
    with pytest.raises(UnreadableFile, match="exists"), KbxWriter(path):
        pass


def test_a_configuration_may_be_what_a_request_may_be() -> None:
    ours, theirs = (model.model_json_schema()["properties"] for model in (FileConfiguration, CreateKnowledgeBase))
    limits = ("minimum", "maximum", "minLength", "maxLength", "maxItems", "pattern", "enum")

    def constraints(schema: dict[str, Any]) -> dict[str, Any]:
        parts = [schema, *schema.get("anyOf", []), schema.get("items", {})]
        return {key: part[key] for part in parts for key in limits if key in part}

    differing = {name for name in theirs if constraints(ours[name]) != constraints(theirs[name])}
    # An absent limit and 0 stand for that of the deployment, which a file has as a number. A name of a model may not
    # contain control characters, which no model has.
    assert differing == {"max_chunks_per_document", "embedding_model"}
    assert kbx.CHUNKERS == create_knowledge_base.CHUNKERS
    assert kbx.MIN_OWN_TOKENS == create_knowledge_base.MIN_OWN_TOKENS


def test_settings_have_the_defaults_of_kb_api() -> None:
    own = set(TransferSettings.__annotations__) & set(TransferSettings.model_fields)
    assert {name: TransferSettings.model_fields[name].default for name in own} == {
        name: ApiSettings.model_fields[name].default for name in own
    }


def test_a_model_is_unknown_if_it_is_neither_local_nor_of_a_provider() -> None:
    def unknown(name: str, chunker_type: str = "recursive") -> bool:
        return is_unknown_model(name, chunker_type=chunker_type)

    known = ("hash-16", "all-MiniLM-L6-v2", "text-embedding-3-small")
    assert [name for name in (*known, "text-embedding-999", "hash-0") if unknown(name)] == [
        "text-embedding-999",
        "hash-0",
    ]
    assert not unknown("named by the deployment", "late")


@pytest.mark.parametrize(
    ("options", "prefix"), [(["a"], ""), (["a=b/c"], ""), (["a=b", "a=c"], ""), ([], "x/"), (["=b"], "")]
)
def test_a_mapping_that_can_not_be_used_is_refused(options: list[str], prefix: str) -> None:
    with pytest.raises(ValueError, match=r"--tag|--document-prefix"):
        IdMapping.parse(options, document_prefix=prefix)


def test_ids_are_mapped() -> None:
    mapping = IdMapping.parse(["a=c", "b=c"], document_prefix="old-")
    assert mapping.map_tags(["a", "b", "d"]) == ["c", "d"]
    assert mapping.map_document("d1") == "old-d1"
    with pytest.raises(UnreadableFile, match="too long"):
        mapping.map_document("d" * 128)
