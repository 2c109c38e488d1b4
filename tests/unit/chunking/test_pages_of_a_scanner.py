"""Pages as an OCR engine leaves them: letters mistaken, words torn at line ends, headers and columns of spaces."""

import random
from itertools import accumulate, pairwise

import pytest

from kb_shared.chunking import ChunkerType, ChunkingConfig, PageSpan
from tests.unit.chunking.chunked import chunked
from tests.unit.chunking.invariants import assert_sound

_LINES = (
    "The harbour master keeps a register of all ships that enter, and of what they carry.",
    "Wird ein Schiff nicht gemel-",
    "det, so ist eine Gebühr fällig; § 12 gilt entsprechend.",
    "Les navires étrangers s\u2019annoncent à l\u2019aube, avant la marée.",
    "Fee      12,50       Dues      3,75       Total     16,25",
    "fi ﬂ ﬁ — “quoted” … • item one",
    "",
    "   7.3  Of lamps and signals",
    "| ~~ _ '",
)
_MISTAKES = str.maketrans({"m": "rn", "l": "1", "o": "0", "e": "c", ".": ",", " ": "  "})


def page(number: int, dice: random.Random, wrong: float) -> str:
    lines = [dice.choice(_LINES) for _ in range(dice.randint(0, 40))]
    text = "\n".join([f"Harbour Rules\t{number}", "", *lines])
    return "".join(c.translate(_MISTAKES) if dice.random() < wrong else c for c in text) + "\n\f"


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.5], ids="wrong={}".format)
@pytest.mark.parametrize("chunker_type", ChunkerType)
def test_chunks_of_scanned_pages_are_sound_and_name_the_pages_they_touch(
    chunker_type: ChunkerType, wrong: float
) -> None:
    dice = random.Random(5)
    page_texts = [page(number, dice, wrong) for number in range(1, 16)]
    ends = accumulate(map(len, page_texts), initial=0)
    pages = [PageSpan(number, start, end) for number, (start, end) in enumerate(pairwise(ends), 1)]
    text, config = "".join(page_texts), ChunkingConfig(chunker_type, 100, 20)

    chunks = chunked(text, config, pages=pages)

    assert_sound(text, config, chunks)
    for chunk in chunks:
        touched = [page.page for page in pages if page.start < chunk.end and chunk.start < page.end]
        assert (chunk.page_start, chunk.page_end) == (touched[0], touched[-1])
