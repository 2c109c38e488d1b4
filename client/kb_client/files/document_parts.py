"""Divides a document that would have too many passages into parts, which are documents of their own.

A knowledge base replaces a document in one transaction, which limits its passages. The first part keeps the id of the
file, and its digest says how many others there are: it is sent last, so that an interrupted push is repeated. The id of
another part comes from its first line, so that it stays the same when parts before it change.
"""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from kb_client.files.parsed_file import ParsedFile
from kb_client.files.source_digest import READER_VERSION
from kb_client.files.text_parts import find_part_starts, label_part
from kb_contracts.documents import Page

MOST_TOKENS: Final = 200_000
"""Estimated tokens of a part. Random letters that were estimated at 300,000 made 2,112 passages of the local stack."""
_LONGEST: Final = (400_000, 200_000, 100_000)
"""Characters of a part, the first that suffices; so a small change does not move the other limits of parts."""
_TOKENS_OF_ASCII: Final = 0.5
"""Tokens of a character in random letters and digits. Words of a language have half as many."""
_TOKENS_OF_OTHERS: Final = 1.5
_DIGEST_CHARACTERS: Final = 8
_NAME_CHARACTERS: Final = 1_024


def split_document(parsed: ParsedFile) -> tuple[ParsedFile, ...]:
    """Return the parts of a document, the first one first; the document itself if it is short enough."""
    if estimate_tokens(parsed.text) <= MOST_TOKENS:
        return (parsed,)
    starts = _choose_starts(parsed.text)
    texts = [parsed.text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    parts = [_make_part(parsed, text, start) for text, start in zip(texts, starts, strict=True)]
    return (
        replace(
            parts[0],
            document_name=_name(parsed.document_name, "part 1"),
            source_digest=f"{parsed.source_digest}+{len(parts) - 1}",
            warnings=parsed.warnings,
        ),
        *(
            replace(
                part,
                document_id=document_id,
                document_name=_name(parsed.document_name, f"part: {label_part(part.text)}"),
                source_digest=_digest_part(part),
            )
            for part, document_id in zip(parts[1:], _part_ids(parsed.document_id, texts[1:]), strict=True)
        ),
    )


def parts_prefix(document_id: str) -> str:
    """Return what the ids of the further parts of a file begin with, and no others do."""
    return f"{document_id}.p"


def file_id(document_id: str) -> str:
    """Return the id of the file that a document is a part of; its own one if it is no further part."""
    file, _, end = document_id.rpartition(".")
    is_part = file.count(".") == 1 and len(end) == _DIGEST_CHARACTERS + 1 and end.startswith("p")
    return file if is_part else document_id


def digest_of_file(source_digest: str | None) -> str | None:
    """Return the digest of the whole file that the digest of a document contains."""
    return None if source_digest is None else source_digest.partition("+")[0]


def count_further_parts(source_digest: str | None) -> int:
    """Return how many documents belong to a file beside the one with this digest."""
    count = (source_digest or "").partition("+")[2]
    return int(count) if count.isdecimal() else 0


def group_by_file(document_ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the further parts among documents by the id of their file."""
    groups: dict[str, set[str]] = {}
    for each in document_ids:
        if (file := file_id(each)) != each:
            groups.setdefault(file, set()).add(each)
    return groups


def estimate_tokens(text: str) -> float:
    """Return about the most tokens that a text has in the usual models."""
    ascii_count = len(text.encode("ascii", "ignore"))
    return ascii_count * _TOKENS_OF_ASCII + (len(text) - ascii_count) * _TOKENS_OF_OTHERS


def _choose_starts(text: str) -> list[int]:
    starts: list[int] = []
    for longest in _LONGEST:
        starts = find_part_starts(text, longest)
        ends = [*starts[1:], len(text)]
        if all(estimate_tokens(text[start:end]) <= MOST_TOKENS for start, end in zip(starts, ends, strict=True)):
            break
    return starts


def _make_part(parsed: ParsedFile, text: str, start: int) -> ParsedFile:
    kept = text.rstrip()
    pages = tuple(
        Page(page=each.page, start=max(each.start - start, 0), end=min(each.end - start, len(kept)))
        for each in parsed.pages
        if each.start - start < len(kept) and each.end > start
    )
    return replace(parsed, text=kept, pages=pages, warnings=())


def _part_ids(document_id: str, texts: Iterable[str]) -> list[str]:
    ids: list[str] = []
    for text in texts:
        ids.append(_free_id(parts_prefix(document_id), text.partition("\n")[0], ids))
    return ids


def _free_id(prefix: str, first_line: str, taken: Collection[str]) -> str:
    number = 1
    while True:
        digest = hashlib.sha256(f"{first_line}\0{number}".encode()).hexdigest()
        if (part_id := prefix + digest[:_DIGEST_CHARACTERS]) not in taken:
            return part_id
        number += 1


def _digest_part(part: ParsedFile) -> str:
    content = repr((READER_VERSION, part.text, [(each.page, each.start, each.end) for each in part.pages]))
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _name(title: str, label: str) -> str:
    end = f" ({label})"
    return title[: _NAME_CHARACTERS - len(end)] + end
