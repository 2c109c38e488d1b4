"""Lines that begin with `#` and are no headings, such as comments of shell commands, in formats without Markdown."""

import re
from typing import Final

_LIKE_A_HEADING: Final = re.compile(r"^([^\S\n]*#{1,6})[ \t](?=[ \t]*\S)", re.MULTILINE)


def keep_literal(text: str) -> str:
    """Return the text with a no-break space after `#` where Markdown would take the line for a heading.

    Texts of documents are Markdown. With this space, the line looks the same and is as long, but is a line like others.
    """
    return _LIKE_A_HEADING.sub("\\1\u00a0", text)
