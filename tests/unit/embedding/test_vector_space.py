from dataclasses import fields, replace
from typing import Any

from kb_shared.mongo.embedding_cache import VectorSpace

SPACE = VectorSpace(scope="acme", provider_fingerprint="p", model="m", dimensions=8, input_type="document")


def test_every_field_of_a_vector_space_changes_its_keys() -> None:
    changes: list[dict[str, Any]] = [{each.name: 9 if each.name == "dimensions" else "other"} for each in fields(SPACE)]
    others = [replace(SPACE, **change) for change in changes]
    keys = [SPACE.key("text"), SPACE.key("another text"), *(other.key("text") for other in others)]
    assert len(set(keys)) == len(keys)
