"""Splits the text of a long item into parts, each of which becomes an entry. Pure.

Where a part ends depends on the lines near its end alone: a change of one part leaves the others as they are, and each
keeps its key, which is made of its first line.
"""

import hashlib
from collections import Counter

from kb_client.files.text_parts import find_part_starts, label_part
from kb_knowledge.sources.source_items import MAX_TEXT_CHARACTERS, MAX_TITLE_CHARACTERS, SourceItem


def split_item(item: SourceItem, *, longest: int = MAX_TEXT_CHARACTERS) -> tuple[SourceItem, ...]:
    """Return the parts of an item, each with its own key and title; the item itself if its text is short enough.

    Args:
        item: what was read.
        longest: number of characters that a part may have.
    """
    if len(item.text) <= longest:
        return (item,)
    starts = find_part_starts(item.text, longest)
    texts = [item.text[start:end].strip("\n") for start, end in zip(starts, [*starts[1:], None], strict=True)]
    labels = ["1", *(f": {label_part(text)}" for text in texts[1:])]
    return tuple(
        SourceItem(key, _title(item.title, label), text, item.url)
        for key, label, text in zip(_keys(item.key, texts), labels, texts, strict=True)
    )


def _keys(key: str, texts: list[str]) -> list[str]:
    """Return the keys of the parts. The first one has that of the item, so that it stays when the item gets longer."""
    seen = Counter[str]()
    keys = [key]
    for text in texts[1:]:
        first_line = text.partition("\n")[0]
        seen[first_line] += 1
        digest = hashlib.sha256(f"{first_line}\0{seen[first_line]}".encode()).hexdigest()[:12]
        keys.append(f"{key}#part-{digest}")
    return keys


def _title(title: str, label: str) -> str:
    part = f" (part{label})" if label.startswith(":") else f" (part {label})"
    return title[: MAX_TITLE_CHARACTERS - len(part)] + part
