"""Reads whose an event is from the key and from the content of its record, in every form in which producers send both.

The content decides. The key only puts what concerns one document into one partition; the order of events does not
depend on it, because revisions decide.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kb_contracts.event_forms import EventHeaders, find_field, read_events_leniently, remove_schema_id
from kb_contracts.identifiers import is_identifier

KEY_OF_ANOTHER_ORGANIZATION: Final = (
    "the key names another organization than the data; the key of an event is {organization_id}/{document_id} of its "
    "data, of a tag {organization_id}/tag/{tag_id}"
)


@dataclass(frozen=True, slots=True)
class Owner:
    """Organization of an event, and its document or tag. None is what can't be told."""

    organization_id: str | None = None
    document_id: str | None = None
    tag_id: str | None = None

    @property
    def key(self) -> str | None:
        """Return the key of the events of this document or tag."""
        if self.organization_id is None:
            return None
        if self.document_id is not None:
            return f"{self.organization_id}/{self.document_id}"
        return None if self.tag_id is None else f"{self.organization_id}/tag/{self.tag_id}"


NO_OWNER: Final = Owner()


def read_key(key: bytes | None) -> Owner:
    """Return what the key of an event names, also within quotation marks or beside a schema."""
    parts = _text_of(key).split("/")
    if not all(map(is_identifier, parts)):
        return NO_OWNER
    match parts:
        case [organization_id, document_id]:
            return Owner(organization_id, document_id)
        case [organization_id, "tag", tag_id]:
            return Owner(organization_id, tag_id=tag_id)
    return NO_OWNER


def read_content(value: bytes | None, headers: EventHeaders = ()) -> Owner:
    """Return what an event names, in whatever form it is; of a batch, the organization of all its events."""
    owners = [_read_data(event.get("data")) for event in read_events_leniently(value, headers)]
    if len(owners) == 1:
        return owners[0]
    organizations = {owner.organization_id for owner in owners}
    return Owner(organizations.pop()) if len(organizations) == 1 else NO_OWNER


def _read_data(data: Any) -> Owner:
    if not isinstance(data, dict):
        return NO_OWNER
    return Owner(*(_identifier(data, name) for name in ("organization_id", "document_id", "tag_id")))


def _identifier(data: Mapping[str, Any], name: str) -> str | None:
    value = find_field(data, name)
    return value if isinstance(value, str) and is_identifier(value) else None


def _text_of(key: bytes | None) -> str:
    text = remove_schema_id(key or b"").decode("utf-8", "replace").strip()
    if text[:1] not in ('"', "{"):
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(document, dict):
        document = document.get("payload")
    return document if isinstance(document, str) else ""
