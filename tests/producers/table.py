"""The 40 events that each client publishes, and the state in which they leave the documents."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kb_contracts.cloudevents import MAX_EVENT_BYTES
from kb_contracts.documents import ABOUT_DOCUMENTS, DocumentEvent
from tests.chaos.oracle import ExpectedDocument, derive_expected

TABLE: Final[Sequence[Mapping[str, Any]]] = json.loads(Path(__file__).with_name("events.json").read_text())
"""Events without what `EventsOfRun` gives them: organization, prefix, `specversion`, `source`, `time`, mostly `id`."""
INDEXED: Final = "indexed"
"""Tag of the knowledge base, the same in all runs."""
TIME: Final = "2026-01-31T12:00:00.500Z"
TIME_MS: Final = 1_769_860_800_500
_LARGE: Final = "large"
_LARGE_BYTES: Final = MAX_EVENT_BYTES - 50
"""Size of the largest event; some clients add an attribute. With its key and headers it is over 1,000,000 bytes."""


@dataclass(frozen=True, slots=True)
class EventsOfRun:
    """The events of one run of a client, whose documents and tags no other run has."""

    organization_id: str
    prefix: str
    transactional: bool = False

    def published(self) -> list[dict[str, Any]]:
        """Return the events that must be handled, in the order of the table, each with its key."""
        return [self._record(number, template) for number, template in enumerate([*TABLE, *self._after_abort()])]

    def aborted(self) -> list[dict[str, Any]]:
        """Return events that would win over those of the table, were their transaction not aborted."""
        templates = [
            _text("aborted", 1, "This may not be read."),
            _text("offer", 100, "This may not be read either."),
            {"type": "document.deleted.v1", "data": {"document_id": "umlauts", "revision": 100}},
            {"type": "tag.deleted.v1", "data": {"tag_id": "offers", "revision": 100}},
        ]
        return [self._record(number, template) for number, template in enumerate(templates, start=1000)]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        """Return the state that each document must come to."""
        events = defaultdict[str, list[DocumentEvent]](list)
        for record in self.published():
            if (model := ABOUT_DOCUMENTS.get(record["event"]["type"])) is not None:
                parsed = model.model_validate(record["event"]["data"])
                events[parsed.document_id].append(parsed)
        return {document_id: derive_expected(each) for document_id, each in events.items()}

    def expected_tags(self) -> dict[str, tuple[str | None, bool, int]]:
        """Return name, whether it is deleted, and revision of each tag that has events of its own."""
        return {
            f"{self.prefix}offers": ("Angebote für März 🌷", False, 1),
            f"{self.prefix}beyond-2.53": ("the newer name", False, 2**53 + 1),
            f"{self.prefix}named-by-the-clock": ("Its revision is its time", False, TIME_MS),
        }

    def _after_abort(self) -> list[dict[str, Any]]:
        # It has the key of an aborted event, so once it is handled, that one was passed.
        last = {"type": "document.tags_changed.v1", "data": {"document_id": "aborted", "revision": 0, "tag_ids": []}}
        return [last] if self.transactional else []

    def _record(self, number: int, template: Mapping[str, Any]) -> dict[str, Any]:
        data = {"organization_id": self.organization_id, **template["data"]}
        for name in ("document_id", "tag_id"):
            if name in data:
                data[name] = self.prefix + data[name]
        if "tag_ids" in data:
            data["tag_ids"] = [each if each == INDEXED else self.prefix + each for each in data["tag_ids"]]
        envelope = {
            "specversion": "1.0",
            "id": f"{self.prefix}{number}",
            "source": "/tests/producers",
            "time": TIME,
            "datacontenttype": "application/json",
        }
        attributes = {name: value for name, value in template.items() if name != "data"}
        if "id" in template:
            attributes["id"] = self.prefix + template["id"]
        about = f"tag/{data['tag_id']}" if "tag_id" in data else data["document_id"]
        event = {**envelope, **attributes, "data": data}
        if template["data"].get("document_id") == _LARGE:
            data["text"] = _repeated(data["text"], bytes_left=_LARGE_BYTES - len(json.dumps(event)))
        return {"key": f"{self.organization_id}/{about}", "event": event}


def _repeated(sentence: str, *, bytes_left: int) -> str:
    """Return the sentence again and again, and then dots, until it takes so many more bytes in JSON."""
    times, rest = divmod(bytes_left, len(json.dumps(sentence)) - 2)
    return sentence * (times + 1) + "." * rest


def _text(document_id: str, revision: int, text: str) -> dict[str, Any]:
    data = {
        "document_id": document_id,
        "revision": revision,
        "document_name": document_id,
        "tag_ids": [INDEXED],
        "upload_date": TIME,
        "text": text,
    }
    return {"type": "document.ocr_completed.v1", "data": data}
