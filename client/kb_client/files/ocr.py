"""Recognizes the text of scanned pages by tesseract, which the user installs."""

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from kb_client.files.cpu_limit import allow_cpu
from kb_client.files.extraction import ExtractOptions, UnreadableDocument

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_PROGRAM: Final = "tesseract"
_DOTS_PER_INCH: Final = 300
_POINTS_PER_INCH: Final = 72
_MAX_PIXELS: Final = 30_000_000


def is_ocr_available() -> bool:
    """Return whether tesseract is installed."""
    return shutil.which(_PROGRAM) is not None


def recognize_page(page: "PdfPage", options: ExtractOptions) -> str:
    """Return the text of an image of the page; an empty one if recognition takes too long.

    Raises:
        UnreadableDocument: tesseract refuses to work, for example because a language is not installed.
    """
    allow_cpu(options.limits)
    command = [_PROGRAM, "stdin", "stdout", "-l", options.ocr_languages, "--dpi", str(_DOTS_PER_INCH)]
    try:
        answer = subprocess.run(  # noqa: S603  # a fixed program; its languages are checked before
            command,
            input=_render(page),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=options.limits.ocr_page_s,
            check=True,
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
        )
    except subprocess.TimeoutExpired:
        return ""
    except (OSError, subprocess.CalledProcessError):
        raise UnreadableDocument(
            "tesseract could not read its pages",
            f"check that tesseract works and has the languages {options.ocr_languages} (tesseract --list-langs)",
        ) from None
    return answer.stdout.decode("utf-8", "replace").replace("\f", "")


def _render(page: "PdfPage") -> bytes:
    """Return an image of the page in shades of grey, as a PGM file."""
    scale = _DOTS_PER_INCH / _POINTS_PER_INCH
    width, height = page.get_size()
    pixels = max(width * height, 1) * scale**2
    bitmap = page.render(scale=scale * min(1.0, (_MAX_PIXELS / pixels) ** 0.5), grayscale=True)
    rows = bytes(bitmap.buffer)
    lines = (rows[at : at + bitmap.width] for at in range(0, bitmap.stride * bitmap.height, bitmap.stride))
    return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + b"".join(lines)
