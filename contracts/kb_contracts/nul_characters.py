"""Leaves NUL characters out of the texts that programs read from files.

No reader sees them, and neither MongoDB's indexes nor embedding models take them.
"""

from bisect import bisect_left
from typing import Any, Final

from kb_contracts.metadata import MAX_WARNINGS

_NUL: Final = "\x00"


def without_nul_characters(data: Any) -> Any:
    """Return the fields of a document without the NUL characters of its `text`, whose number is among the warnings.

    `pages` then name the places of the same characters. What is no such field is returned as it is.
    """
    text = data.get("text") if isinstance(data, dict) else None
    if not isinstance(text, str) or _NUL not in text:
        return data
    places = [place for place, character in enumerate(text) if character == _NUL]
    cleaned = {**data, "text": text.replace(_NUL, "")}
    if isinstance(data.get("pages"), list):
        cleaned["pages"] = [_moved(page, places) for page in data["pages"]]
    warnings = data.get("reading_warnings")
    if warnings is None or isinstance(warnings, list | tuple):
        said = f"{len(places):,} NUL characters were left out of the text"
        cleaned["reading_warnings"] = [*(warnings or ())[: MAX_WARNINGS - 1], said]
    return cleaned


def _moved(page: Any, places: list[int]) -> Any:
    if not isinstance(page, dict):
        return page
    ends = {name: page[name] for name in ("start", "end") if type(page.get(name)) is int}
    return {**page, **{name: place - bisect_left(places, place) for name, place in ends.items()}}
