"""A change that breaks callers is found, and any other is not."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.openapi.breaking_changes import BreakingChange, find_breaking_changes, unannounced
from tests.openapi.document import PACKAGED, RELEASED, ROOT

Document = dict[str, Any]
Change = Callable[[Document], None]

RELEASED_DOCUMENT: Document = json.loads(RELEASED.read_text())
SEARCH = "/v0/orgs/{organization_id}/knowledge-bases/{kb_id}/search"


def schema(document: Document, name: str) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


def changed(change: Change) -> list[str]:
    document = copy.deepcopy(RELEASED_DOCUMENT)
    change(document)
    return [str(each) for each in find_breaking_changes(RELEASED_DOCUMENT, document)]


def test_the_document_breaks_no_caller_of_the_last_release_unless_the_changelog_says_so() -> None:
    changes = find_breaking_changes(RELEASED_DOCUMENT, json.loads(PACKAGED.read_text()))
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert [*map(str, unannounced(changes, changelog))] == [], "add a line `- Breaking: <operation id> ...`"


def rename_total(document: Document) -> None:
    fields = schema(document, "TagList")["properties"]
    fields["total"] = fields.pop("total_count")


def narrow_mode(document: Document) -> None:
    schema(document, "SearchRequest")["properties"]["mode"]["enum"].remove("text")


def require_description(document: Document) -> None:
    schema(document, "PutTag")["required"].append("description")
    schema(document, "PutTag")["properties"]["description"] = {"type": "string"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda document: document["paths"][SEARCH].pop("post"), "knowledge_bases.search: removed"),
        (
            lambda document: document["paths"].update({"/moved": document["paths"].pop(SEARCH)}),
            f"knowledge_bases.search: moved from POST {SEARCH}",
        ),
        (rename_total, "tags.list: response 200.total_count: removed"),
        (
            lambda document: schema(document, "TagView")["properties"]["tag_id"].update(type="integer"),
            "tags.put: response 201.tag_id: may be integer",
        ),
        (
            lambda document: schema(document, "TagView")["required"].remove("tag_id"),
            "tags.list: response 200.tags[].tag_id: may be absent",
        ),
        (require_description, "tags.put: request.description: required"),
        (narrow_mode, "knowledge_bases.search: request.mode: no longer takes text"),
        (
            lambda document: schema(document, "SearchRequest")["properties"].pop("top_k"),
            "knowledge_bases.search: request.top_k: removed",
        ),
        (
            lambda document: schema(document, "DocumentError")["properties"].pop("message"),
            "knowledge_bases.list_documents: response 200.documents[].error.message: removed",
        ),
    ],
)
def test_what_breaks_a_caller_is_found(change: Change, found: str) -> None:
    assert found in changed(change)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: schema(document, "TagView")["properties"].update(color={"type": "string"}),
        lambda document: schema(document, "PutTag")["properties"].update(color={"type": "string"}),
        lambda document: schema(document, "TagView").update(description="Another description."),
        lambda document: schema(document, "SearchRequest")["properties"]["mode"]["enum"].append("image"),
        lambda document: document["paths"].update({"/new": {"get": {"operationId": "new.get", "responses": {}}}}),
    ],
)
def test_what_breaks_no_caller_is_not_found(change: Change) -> None:
    assert changed(change) == []


@settings(max_examples=10)
@given(removed=st.sets(st.sampled_from(sorted(RELEASED_DOCUMENT["paths"])), max_size=5))
def test_exactly_the_removed_operations_are_found(removed: set[str]) -> None:
    later = {**RELEASED_DOCUMENT, "paths": {k: v for k, v in RELEASED_DOCUMENT["paths"].items() if k not in removed}}
    expected = {each["operationId"] for path in removed for each in RELEASED_DOCUMENT["paths"][path].values()}
    found = find_breaking_changes(RELEASED_DOCUMENT, later)
    assert {each.operation_id for each in found if each.what == "removed"} == expected
    assert {each.what for each in found} <= {"removed"}


def test_a_line_of_the_changelog_announces_the_changes_of_its_operation_only() -> None:
    changes = [BreakingChange("tags.list", "removed"), BreakingChange("tags.put", "removed")]
    assert unannounced(changes, "- Breaking: tags.list is gone.\nBreaking tags.put\n") == changes[1:]
