"""Decides what of a source is new since the last run. Unchanged content costs neither an event nor an SPU."""

from collections.abc import Mapping
from typing import Final

from kb_client.files.source_digest import READER_VERSION
from kb_knowledge.sources.source_items import KnownItem, Validators

_MAX_VALIDATOR_CHARACTERS: Final = 500


def conditional_headers(known: KnownItem | None) -> Mapping[str, str]:
    """Return the headers by which a server need not send what is known.

    An item that an earlier version of the parsers read is asked for as a whole: the text may be better now.
    """
    if known is None or known.reader_version != READER_VERSION:
        return {}
    asked = {"if-none-match": known.validators.etag, "if-modified-since": known.validators.last_modified}
    return {name: value for name, value in asked.items() if value is not None}


def read_validators(headers: Mapping[str, str]) -> Validators:
    return Validators(_usable(headers.get("etag")), _usable(headers.get("last-modified")))


def _usable(value: str | None) -> str | None:
    if value is None or len(value) > _MAX_VALIDATOR_CHARACTERS or not value.isascii() or not value.isprintable():
        return None
    return value
