"""Texts that have broken chunkers: scripts without spaces, joined code points, and inputs no author would write."""

import base64
import random

_ENGLISH = (
    "The broker keeps offsets per partition. A commit is the highest contiguous offset plus one! Is a gap allowed? "
    "No; a gap would lose a message, and a lost message is never indexed.\n\nTables, lists and code follow.\n"
)
_MARKDOWN = (
    "# Widgets\n\nIntro to widgets.\n\n## Install\n\n```sh\n# not a heading\npip install widgets\n```\n\n"
    "### From source\n\nClone it, then build it. It takes a while.\n\n## Use\n\n| name | size |\n|---|---|\n"
    "| small | 1 |\n| large | 9 |\n\n- one\n- two\n"
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _base64(size: int) -> str:
    return base64.b64encode(random.Random(7).randbytes(size)).decode()


def scripts(repeats: int) -> dict[str, str]:
    """Return a text of each kind, its length in proportion to `repeats`."""
    return {
        "ascii": _ENGLISH * repeats,
        "markdown": _MARKDOWN * repeats,
        "windows_lines": (_MARKDOWN * repeats).replace("\n", "\r\n"),
        "cjk": "東京都は日本の首都である。人口は約千四百万人、面積は二千平方キロ。" * 4 * repeats,
        "cjk_without_sentence_ends": "漢字仮名交文字列" * 16 * repeats,
        "thai": "ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ" * 6 * repeats,
        "arabic": "الفهرس يحفظ كل فقرة مرة واحدة. هل هذا صحيح؟ نعم، دائما. " * 4 * repeats,
        "combining": "e\u0301a\u0308o\u0302n\u0303 " * 24 * repeats,
        "hangul_jamo": "\u1112\u1161\u11ab\u1100\u1173\u11af " * 12 * repeats,
        "emoji_zwj": "👩\u200d👩\u200d👧\u200d👦🏳\ufe0f\u200d🌈👍🏽" * 6 * repeats,
        "zalgo": ("Z" + "\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307" * 3) * 4 * repeats,
        "marks_only": "\u0301" * 120 * repeats,
        "math_alphanumerics": "\U0001d518\U0001d52b\U0001d526\U0001d7d8" * 20 * repeats,
        "nul_and_line_separators": "a\x00b\u2028c\u2029d\x0ce\x85f\u00a0g\u200b" * 10 * repeats,
        "controls": "\x01a\x02\x07 \x1b[0mb\x7f\x1c \x1fc\x80 " * 12 * repeats,
        "devanagari": "\u0938\u0942\u091a\u0940 \u0939\u0930 \u0905\u0928\u0941\u091a\u094d\u091b\u0947\u0926\u0964 "
        * 12
        * repeats,
        "flags": "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7" * 40 * repeats,
        "special_tokens": "<|endoftext|> and <|fim_prefix|> are text. " * 6 * repeats,
        "replacement_characters": "bro\ufffdken \ufffd\ufffd " * 12 * repeats,
        "base64": _base64(180 * repeats),
        "one_letter": "a" * 240 * repeats,
        "csv": "1,2,3,4\n" * 30 * repeats,
        "dots": ". " * 120 * repeats,
        "newlines": "\n" * 240 * repeats,
        "spaces": " " * 240 * repeats,
        "islands_in_whitespace": ("island" + " " * 200 + "\n" * 200) * repeats,
        "fences": "```\n" * 60 * repeats,
        "heading_marks": "# " * 120 * repeats,
        "deep_headings": "###### a\n" * 26 * repeats,
        "table": "| left | right |\n" * 14 * repeats,
        "table_under_a_header": "| name | size |\n|:---|---:|\n"
        + "| left | right |\n" * 13 * repeats
        + "\nAfter it.\n",
        "rows_and_dashes": "a | b\n---|---\n\n" * 15 * repeats,
        "code": "```\n" + "call(it)  # and again\n\n" * 11 * repeats + "```\n",
        "headings_over_nothing": "# a\n\n## b\n\n### c\n\n" * 11 * repeats,
        "words_of_every_length": " ".join((_LETTERS * 3)[: n % 61] for n in range(8 * repeats)),
    }
