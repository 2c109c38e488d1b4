"""Changes of several documents at once: of tags and metadata, and deletions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kb_console.errors import UnusableForm
from kb_console.knowledge.property_lines import parse_properties
from kb_console.typed_words import split_words
from kb_contracts.api.documents import DocumentView

BulkEdit: TypeAlias = Literal["add_tags", "remove_tags", "set_metadata", "delete"]


@dataclass(frozen=True, slots=True)
class BulkForm:
    edit: BulkEdit
    tags: str = ""
    """Ids, with commas or blanks between them."""
    properties: str = ""
    """A line for each metadata key; one without a value removes the key."""


def plan_changes(form: BulkForm, documents: Sequence[DocumentView]) -> list[Mapping[str, Any]]:
    """Return the batch that makes the changes. Documents that are as wanted already are left out.

    Raises:
        UnusableForm: no tag or key was given, or a line is no property.
    """
    match form.edit:
        case "delete":
            return [{"action": "delete", "document_id": document.document_id} for document in documents]
        case "set_metadata":
            return _plan_metadata(form, documents)
        case _:
            return _plan_tags(form, documents)


def _plan_tags(form: BulkForm, documents: Sequence[DocumentView]) -> list[Mapping[str, Any]]:
    given = split_words(form.tags)
    if not given:
        raise UnusableForm({"tags": "must be the ids of tags, with commas between them"})
    batch: list[Mapping[str, Any]] = []
    for document in documents:
        kept = [tag_id for tag_id in document.tag_ids if tag_id not in given]
        # New tags come last, so that a document that has them all stays as it is.
        added = [tag_id for tag_id in given if tag_id not in document.tag_ids]
        wanted = [*document.tag_ids, *added] if form.edit == "add_tags" else kept
        if wanted != document.tag_ids:
            batch.append({"action": "replace_tags", "document_id": document.document_id, "tag_ids": wanted})
    return batch


def _plan_metadata(form: BulkForm, documents: Sequence[DocumentView]) -> list[Mapping[str, Any]]:
    given = parse_properties(form.properties)
    if not given:
        raise UnusableForm({"properties": "must have a line such as year: 2026"})
    batch: list[Mapping[str, Any]] = []
    for document in documents:
        merged = {name: value for name, value in {**document.metadata, **given}.items() if value != ""}
        if merged != document.metadata:
            batch.append({"action": "replace_metadata", "document_id": document.document_id, "metadata": merged})
    return batch
