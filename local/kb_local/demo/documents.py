"""Real documents that every machine has after the installation: the descriptions of the installed distributions."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final, cast

from kb_local.demo.demo_questions import DEMO_QUESTIONS

MOST_DOCUMENTS: Final = 120
_MOST_CHARACTERS: Final = 6_000
_LEAST_CHARACTERS: Final = 300
_TAGGED_BY: Final = ("Topic", "Framework", "Typing")
_LICENCES: Final = {"mit": "mit", "apache": "apache", "bsd": "bsd", "mpl": "mpl", "mozilla": "mpl", "psf": "psf"}


@dataclass(frozen=True, slots=True)
class LibraryDocument:
    """The description of one library, as an upstream document service would know it."""

    document_id: str
    name: str
    text: str
    licence_tags: tuple[str, ...]
    topic_tags: tuple[str, ...]
    version: str
    installed_at: datetime

    @property
    def tag_ids(self) -> tuple[str, ...]:
        return (*self.licence_tags, *self.topic_tags)


def installed_libraries() -> list[LibraryDocument]:
    """Return the first 6,000 characters of up to 120 descriptions: those that the questions are about, then by name."""
    found = {document.document_id: document for each in distributions() if (document := _document(each)) is not None}
    asked = {question.library for question in DEMO_QUESTIONS}
    chosen = sorted(found, key=lambda document_id: (document_id not in asked, document_id))[:MOST_DOCUMENTS]
    return [found[document_id] for document_id in sorted(chosen)]


def _document(distribution: Distribution) -> LibraryDocument | None:
    metadata = cast("Message", distribution.metadata)
    body = metadata.get_payload()
    text = (body if isinstance(body, str) and body.strip() else metadata.get("Description", "")).replace("\x00", "")
    name = metadata["Name"]
    if len(text) < _LEAST_CHARACTERS or not name:
        return None
    classifiers = metadata.get_all("Classifier") or []
    return LibraryDocument(
        document_id=re.sub(r"[^A-Za-z0-9._-]", "-", name).lower(),
        name=f"{name} {distribution.version}",
        text=text[:_MOST_CHARACTERS],
        licence_tags=_licence_tags(classifiers, metadata.get("License-Expression") or metadata.get("License") or ""),
        topic_tags=tuple(sorted({_slug(c) for c in classifiers if c.startswith(_TAGGED_BY)})),
        version=distribution.version,
        installed_at=datetime.fromtimestamp(Path(str(distribution.locate_file(""))).stat().st_mtime, UTC),
    )


def _licence_tags(classifiers: list[str], expression: str) -> tuple[str, ...]:
    said = " ".join([*(c for c in classifiers if c.startswith("License")), expression[:80]]).lower()
    return tuple(sorted({f"license-{licence}" for word, licence in _LICENCES.items() if word in said}))


def _slug(classifier: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", classifier.lower()).strip("-")
