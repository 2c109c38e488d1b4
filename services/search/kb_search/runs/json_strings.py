"""The strings of an answer that follows a schema, which are cleaned as an answer in prose is. Pure.

Names are strings, too. What stands between the strings is passed on as it is, also how numbers are written. Where
something stands there that JSON does not have, all that follows is cleaned as prose.
"""

import json
import re
from collections.abc import Callable
from typing import Final, TypeAlias

Clean: TypeAlias = Callable[[str], str]

_SPECIAL: Final = re.compile(r'["\\]')
_NO_JSON: Final = re.compile(r"[^\s{}\[\]:,+.0-9Eaeflnrstu-]")
"""Between strings."""
_HALF_A_CHARACTER: Final = re.compile(r"[\ud800-\udfff]")


def clean_json(answer: str, clean: Clean) -> str:
    """Return JSON with each of its strings cleaned; it may violate a schema that the answer follows."""
    pieces = CleanJsonPieces(clean)
    return pieces.feed(answer) + pieces.end()


class CleanJsonPieces:
    """The same for an answer that comes in pieces: each string waits for its end."""

    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._string: list[str] = []
        """The beginning of a string whose end has not come; empty between strings."""
        self._is_escaped = False
        self._prose: list[str] = []
        """Rest of a text that is not JSON any more: it will be refused, but is streamed before that."""

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
        return self._clean("".join(self._prose or self._string))

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


def clean_string(written: str, clean: Clean) -> str:
    """Return a string of JSON, given and returned with its quotes, cleaned."""
    try:
        text = json.loads(written, strict=False)
    except ValueError:
        # Not JSON, so an answer that will be refused.
        return clean(written)
    shown = clean(text)
    # Half of a surrogate pair can be written as an escape only.
    return written if shown == text else json.dumps(shown, ensure_ascii=bool(_HALF_A_CHARACTER.search(shown)))
