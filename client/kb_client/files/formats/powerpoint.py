"""Reads PowerPoint files: a page for each visible slide, with its notes."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kb_client.files.extraction import Extraction, ExtractOptions, join_pages
from kb_client.files.formats.archive import open_archive
from kb_client.files.formats.literal_lines import keep_literal
from kb_client.files.formats.rows import rows_to_lines
from kb_client.files.formats.word import created_at

if TYPE_CHECKING:
    from pptx.slide import Slide

_MAX_NESTING: Final = 20


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return the text of the visible slides, each with its number as the page."""
    import pptx

    presentation = pptx.Presentation(open_archive(data, options))
    slides = [(number, slide) for number, slide in enumerate(presentation.slides, 1)]
    visible = [(number, slide) for number, slide in slides if slide._element.get("show") != "0"]  # noqa: SLF001  # public nowhere
    hidden = len(slides) - len(visible)
    text, pages = join_pages([(number, _slide_text(slide)) for number, slide in visible])
    return Extraction(
        text,
        title=_title(presentation.core_properties.title) or next(filter(None, (_heading(s) for _, s in visible)), None),
        date=created_at(presentation.core_properties),
        pages=pages,
        warnings=(f"{hidden} hidden slides were left out",) if hidden else (),
    )


def _slide_text(slide: "Slide") -> str:
    heading = _heading(slide)
    blocks = [f"## {heading}"] if heading else []
    title_id = slide.shapes.title.shape_id if slide.shapes.title is not None else None
    blocks += [block for shape_id, block in _shape_blocks(slide.shapes) if shape_id != title_id]
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None and frame.text.strip():
        blocks.append("Notes: " + keep_literal(frame.text.strip()))
    return "\n\n".join(blocks)


def _shape_blocks(shapes: Iterable[Any], depth: int = 0) -> Iterator[tuple[int, str]]:
    """Yield id and text of each shape in reading order, which is from top to bottom and from left to right."""
    for shape in sorted(shapes, key=lambda each: (each.top or 0, each.left or 0)):
        if hasattr(shape, "shapes"):
            if depth < _MAX_NESTING:
                yield from _shape_blocks(shape.shapes, depth + 1)
        elif getattr(shape, "has_table", False):
            rows = ([cell.text for cell in row.cells] for row in shape.table.rows)
            if lines := "\n".join(rows_to_lines(rows)):
                yield shape.shape_id, lines
        elif shape.has_text_frame and (text := _paragraphs(shape.text_frame)):
            yield shape.shape_id, text


def _paragraphs(frame: Any) -> str:
    lines = [
        "  " * paragraph.level + paragraph.text.strip() for paragraph in frame.paragraphs if paragraph.text.strip()
    ]
    return keep_literal("\n".join(lines).replace("\v", "\n"))


def _heading(slide: "Slide") -> str:
    title = slide.shapes.title
    return _title(title.text_frame.text) if title is not None else ""


def _title(text: str | None) -> str:
    title = " ".join((text or "").split())
    return "" if title == "PowerPoint Presentation" else title
