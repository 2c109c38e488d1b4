"""Cleans the strings of a JSON answer in the same way as an answer in prose. Pure.

Names are strings, too. Text between the strings is passed on unchanged, also the form of numbers. From the first
character that is not JSON, the rest is cleaned as prose.
"""

import json
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from kb_search.runs.written_answers import without_fence

Clean: TypeAlias = Callable[[str], str]

_SPECIAL: Final = re.compile(r'["\\]')
_NO_JSON: Final = re.compile(r"[^\s{}\[\]:,+.0-9Eaeflnrstu-]")
"""Characters that JSON never has between strings."""
_HALF_A_CHARACTER: Final = re.compile(r"[\ud800-\udfff]")


def clean_json(answer: str, clean: Clean) -> str:
    """Return JSON with each of its strings cleaned; it may violate a schema that the answer follows."""
    pieces = JsonStreamCleaner(clean)
    return pieces.feed(answer) + pieces.end()


class JsonStreamCleaner:
    """Cleans JSON that is streamed in pieces: each string is held until its end."""

    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._string: list[str] = []
        """Beginning of a string whose end has not arrived; empty between strings."""
        self._is_escaped = False
        self._prose: list[str] = []
        """Rest of a text from the first character that is not JSON. It is streamed; the answer will be refused."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        if self._prose:
            self._prose.append(piece)
            return ""
        shown: list[str] = []
        position = 0
        while position < len(piece):
            if not self._string:
                position = self._pass_on(piece, position, shown)
            elif self._is_escaped:
                self._string.append(piece[position])
                self._is_escaped = False
                position += 1
            else:
                position = self._go_on(piece, position, shown)
        return "".join(shown)

    def end(self) -> str:
        """Return the rest, when no piece follows: prose, or a string that was cut off."""
        rest = "".join(self._prose or self._string)
        inner = without_fence(rest) if self._prose else rest
        return self._clean(rest) if inner == rest else clean_json(inner, self._clean)

    def _pass_on(self, piece: str, position: int, shown: list[str]) -> int:
        begins = piece.find('"', position)
        wrong = _NO_JSON.search(piece, position, len(piece) if begins < 0 else begins)
        if wrong is not None:
            shown.append(piece[position : wrong.start()])
            self._prose = [piece[wrong.start() :]]
            return len(piece)
        if begins < 0:
            shown.append(piece[position:])
            return len(piece)
        shown.append(piece[position:begins])
        self._string = ['"']
        return begins + 1

    def _go_on(self, piece: str, position: int, shown: list[str]) -> int:
        special = _SPECIAL.search(piece, position)
        end = len(piece) if special is None else special.end()
        self._string.append(piece[position:end])
        if special is not None and special[0] == "\\":
            self._is_escaped = True
        elif special is not None:
            shown.append(clean_string("".join(self._string), self._clean))
            self._string = []
        return end


def clean_string(encoded: str, clean: Clean) -> str:
    """Clean one JSON string, which is given and returned with its quotes."""
    try:
        text = json.loads(encoded, strict=False)
    except ValueError:
        # Not JSON, so an answer that will be refused.
        return clean(encoded)
    cleaned = clean(text)
    # Half of a surrogate pair can only be encoded as an escape.
    return encoded if cleaned == text else json.dumps(cleaned, ensure_ascii=bool(_HALF_A_CHARACTER.search(cleaned)))
