"""A file for which the memory is too small is told from one that is damaged."""

from pathlib import Path

import pytest

from kb_client.files import parser_process
from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.html import page
from kb_client.files.limits import ParseLimits


@pytest.mark.parametrize("error", [MemoryError, SystemError])
def test_a_lack_of_memory_is_named_and_ends_the_process(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def extract(_data: bytes, _options: ExtractOptions) -> Extraction:
        raise error

    monkeypatch.setattr(page, "extract", extract)
    (tmp_path / "page.html").write_text("<p>Harbour")
    answer = parser_process._answer(tmp_path / "page.html", ExtractOptions(ParseLimits(memory_bytes=400_000_000)))
    assert answer["last"]
    assert answer["problem"]["reason"] == "reading it takes more than 400 MB of memory"
