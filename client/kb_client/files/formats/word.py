"""Reads Word files as Markdown: headings, paragraphs, lists and tables in their order."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.archive import open_archive
from kb_client.files.formats.literal_lines import keep_literal
from kb_client.files.formats.rows import rows_to_lines

if TYPE_CHECKING:
    from docx.blkcntnr import BlockItemContainer
    from docx.opc.coreprops import CoreProperties
    from docx.table import Table, _Row
    from docx.text.paragraph import Paragraph

_HEADING: Final = re.compile(r"heading (\d)", re.IGNORECASE)
_MAX_NESTING: Final = 20


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return the text of the body; headers, footers, comments and deleted text are left out."""
    import docx

    document = docx.Document(open_archive(data, options))
    # python-docx searches the styles for each paragraph again.
    styles = {style.style_id: style.name or "" for style in document.styles}
    blocks = list(_blocks(document, styles))
    return Extraction(
        _join(blocks),
        title=_clean(document.core_properties.title) or _first_heading(blocks),
        date=created_at(document.core_properties),
    )


def created_at(properties: "CoreProperties") -> datetime | None:
    """Return when the file was last saved, or made."""
    for name in ("modified", "created"):
        try:
            date = getattr(properties, name)
        except ValueError:
            continue
        if isinstance(date, datetime):
            return date if date.tzinfo else date.replace(tzinfo=UTC)
    return None


def _blocks(container: "BlockItemContainer", styles: Mapping[str, str], depth: int = 0) -> Iterator[str]:
    from docx.table import Table

    for item in container.iter_inner_content():
        if isinstance(item, Table):
            if depth < _MAX_NESTING:
                yield from _table_blocks(item, styles, depth)
        elif block := _paragraph(item, styles):
            yield block


def _join(blocks: list[str]) -> str:
    """Join blocks by empty lines, and the items of a list by line ends."""
    ends = ["\n" if block.startswith("- ") and after.startswith("- ") else "\n\n" for block, after in pairwise(blocks)]
    return "".join(block + end for block, end in zip(blocks, [*ends, ""], strict=True)) if blocks else ""


def _paragraph(paragraph: "Paragraph", styles: Mapping[str, str]) -> str:
    text = str(paragraph.text).strip()
    if not text:
        return ""
    style = styles.get(paragraph._p.style, "")  # noqa: SLF001  # no public name
    if style == "Title":
        return "# " + " ".join(text.split())
    if heading := _HEADING.match(style):
        return "#" * min(int(heading[1]) or 1, 6) + " " + " ".join(text.split())
    text = keep_literal(text)
    return "- " + text if style.startswith("List") else text


def _table_blocks(table: "Table", styles: Mapping[str, str], depth: int) -> Iterator[str]:
    lines = "\n".join(rows_to_lines(_cells(row, styles, depth) for row in table.rows))
    if lines:
        yield lines


def _cells(row: "_Row", styles: Mapping[str, str], depth: int) -> list[str]:
    """Return the texts of the cells of a row; a merged cell counts once."""
    texts, before = [], None
    for cell in row.cells:
        texts.append("" if cell._tc is before else " ".join(_blocks(cell, styles, depth + 1)))  # noqa: SLF001  # public nowhere
        before = cell._tc  # noqa: SLF001  # public nowhere
    return texts


def _first_heading(blocks: list[str]) -> str | None:
    return next((block.lstrip("# ") for block in blocks if block.startswith(("# ", "## "))), None)


def _clean(title: str | None) -> str:
    return " ".join((title or "").split())
