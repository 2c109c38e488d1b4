"""Search index definitions as they are wanted, compared with those that the deployment lists."""

from copy import deepcopy
from typing import Any

import pytest

from kb_shared.mongo.chunk_indexes import build_text_index, build_vector_index, is_defined_as

VECTOR: dict[str, Any] = build_vector_index(8, ["year", "lang"]).document["definition"]
TEXT: dict[str, Any] = build_text_index("lucene.english", ["year"], text_normalization=2).document["definition"]

TOKENS = ("organization_id", "kb_id", "document_id", "document_name", "tag_ids", "metadata_pairs")


def changed(definition: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    """With another value at `path`; None removes it."""
    copy = deepcopy(definition)
    place = copy
    for name in path[:-1]:
        place = place[name]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return copy


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (VECTOR, VECTOR),
        (TEXT, TEXT),
        ({"fields": VECTOR["fields"][::-1]}, VECTOR),
        ({**TEXT, "numPartitions": 1, "storedSource": False}, TEXT),
        (changed(TEXT, "mappings", "fields", "tag_ids", "normalizer", to="none"), TEXT),
        (changed(TEXT, "mappings", "dynamic", to=None), TEXT),
        (changed(VECTOR, "fields", 0, "quantization", to="none"), VECTOR),
        (changed(TEXT, "analyzers", 0, "tokenizer", "maxTokenLength", to=255), TEXT),
    ],
)
def test_fields_that_a_deployment_adds_to_a_definition_make_no_difference(
    found: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert is_defined_as(found, wanted)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (changed(VECTOR, "fields", 0, "numDimensions", to=16), VECTOR),
        (changed(VECTOR, "fields", 0, "similarity", to="euclidean"), VECTOR),
        ({"fields": VECTOR["fields"][:-1]}, VECTOR),
        ({"fields": [*VECTOR["fields"], {"type": "filter", "path": "metadata_snapshot.more"}]}, VECTOR),
        (changed(TEXT, "analyzer", to="lucene.english"), TEXT),
        (changed(TEXT, "analyzers", to=None), TEXT),
        (changed(TEXT, "analyzers", 0, "charFilters", to=[]), TEXT),
        (changed(TEXT, "analyzers", 0, "tokenFilters", 2, "tokens", to=["the"]), TEXT),
        (changed(TEXT, "mappings", "dynamic", to=True), TEXT),
        (changed(TEXT, "mappings", "fields", "more", to={"type": "token"}), TEXT),
        (changed(TEXT, "mappings", "fields", "chunk_text", to={"type": "token"}), TEXT),
        (changed(TEXT, "mappings", "fields", "chunk_text", to=None), TEXT),
        (changed(TEXT, "mappings", "fields", "metadata_snapshot", to=None), TEXT),
        (changed(TEXT, "mappings", "fields", "metadata_snapshot", "fields", "year", to=[{"type": "token"}]), TEXT),
        (TEXT, build_text_index("lucene.english", (), text_normalization=2).document["definition"]),
        (TEXT, build_text_index("lucene.english", ["year"], text_normalization=1).document["definition"]),
    ],
)
def test_any_other_difference_between_definitions_is_noticed(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert not is_defined_as(found, wanted)


def test_words_of_embedding_texts_are_found_once_the_index_is_built_for_them() -> None:
    def is_indexed(text_normalization: int, rebuilds: int) -> bool:
        index = build_text_index("lucene.german", text_normalization=text_normalization, rebuilds=rebuilds)
        return "embedding_text" in index.document["definition"]["mappings"]["fields"]

    assert is_indexed(2, 0)
    assert is_indexed(1, 1)
    assert not is_indexed(1, 0)


def test_the_definition_of_a_knowledge_base_without_normalization_is_what_it_always_was() -> None:
    # Another one would have the index of every such knowledge base built again.
    assert build_text_index("lucene.german").document["definition"] == {
        "analyzer": "lucene.german",
        "mappings": {
            "dynamic": False,
            "fields": {
                "chunk_text": {"type": "string"},
                "heading_path": {"type": "string"},
                **{path: {"type": "token"} for path in TOKENS},
                "upload_date": {"type": "date"},
            },
        },
    }


def test_other_spellings_are_indexed_in_knowledge_bases_that_have_them() -> None:
    fields = [
        build_text_index("lucene.english", text_normalization=number).document["definition"]["mappings"]["fields"]
        for number in (1, 2, 3)
    ]
    assert ["spellings" in each for each in fields] == [False, False, True]
    # The number of spellings of a chunk does not count.
    assert fields[2]["spellings"]["norms"] == "omit"
