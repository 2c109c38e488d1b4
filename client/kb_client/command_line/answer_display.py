"""Shows a run while it goes on: what the model does, its answer as it writes, and the passages that it cites."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kb_client.command_line.cited_sentence import find_cited_sentence
from kb_client.command_line.output import open_console, visible
from kb_client.command_line.search import describe_copies, describe_place

if TYPE_CHECKING:
    from rich.console import Console

    from kb_contracts.api.run_events import AnswerDelta, RunEvent
    from kb_contracts.api.runs import CitationView, RunView

_QUOTED_CHARACTERS: Final = 240
_WARNINGS: Final = {
    "received": "No passage is cited: the documents may not say this.",
    "none": "No document was read for this answer: nothing says where it comes from.",
}
"""Warnings about an answer without citations, by what it rests on."""


class AnswerDisplay:
    """Prints a run as its events come."""

    def __init__(self) -> None:
        self._status = open_console(errors=True).status("thinking")
        self._iteration = 0
        self._lines = WrappedLines(width=open_console().width if sys.stdout.isatty() else None)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()
        self._lines.end()

    def show(self, event: "RunEvent") -> None:
        """Print what an event says."""
        if event.event == "tool.called":
            self._status.update("searching")
        elif event.event == "answer.delta":
            self._status.stop()
            self._write(event.data)

    def _write(self, delta: "AnswerDelta") -> None:
        if delta.iteration != self._iteration:
            self._lines.end()
        self._iteration = delta.iteration
        self._lines.write(visible(delta.text))


class WrappedLines:
    """Writes a text as it comes, and breaks lines of a terminal between words."""

    def __init__(self, *, width: int | None) -> None:
        """Begin a line.

        Args:
            width: of the terminal; None for a file or a pipe, which gets the text as it is.
        """
        self._width = width
        self._column = 0
        self._spaces = ""
        self._word = ""
        self._is_within_line = False

    def write(self, text: str) -> None:
        """Write all whole words; the last one, which may go on, waits for its end."""
        if self._width is None:
            sys.stdout.write(text)
        else:
            for character in text:
                self._take_character(character, width=self._width)
        self._is_within_line = not text.endswith("\n") if text else self._is_within_line
        sys.stdout.flush()

    def end(self) -> None:
        """Write what waits, and end the line that has begun."""
        self._write_word()
        if self._is_within_line:
            print()
        self._column, self._spaces, self._is_within_line = 0, "", False

    def _take_character(self, character: str, *, width: int) -> None:
        from rich.cells import cell_len

        if character.isspace():
            self._write_word()
            if character == "\n":
                sys.stdout.write("\n")
                self._column, self._spaces = 0, ""
            else:
                self._spaces += character
            return
        if cell_len(character) > 1 or cell_len(self._word) >= width:
            # Scripts with wide characters have no spaces; a word of a whole line is broken as it is.
            self._write_word()
        self._word += character

    def _write_word(self) -> None:
        from rich.cells import cell_len

        if not self._word or self._width is None:
            return
        length = cell_len(self._spaces + self._word)
        if self._column and self._column + length > self._width:
            sys.stdout.write("\n")
            self._column, self._spaces, length = 0, "", cell_len(self._word)
        sys.stdout.write(self._spaces + self._word)
        self._column += length
        self._spaces = self._word = ""


def print_footnotes(citations: "list[CitationView]", answer: str) -> None:
    """Print document, page and the cited sentence of each passage that an answer cites, and what opens the passage."""
    console = open_console()
    for citation in sorted(citations, key=lambda each: each.number):
        place = describe_place(citation.source, citation.heading_path, citation.page_start, page_end=citation.page_end)
        known = [visible(citation.source), *place, describe_copies(citation.also_in)]
        console.print()
        _print_wrapped(console, f"[{citation.number}] {', '.join(filter(None, known))}")
        if citation.text:
            sentence = find_cited_sentence(citation.text, answer, number=citation.number)
            _print_wrapped(console, quote(sentence), indent=4, style="dim")
        ids = f"document {visible(citation.document_id)}, knowledge base {citation.kb_id}"
        console.print(f"    {ids}", style="dim", soft_wrap=True)


def print_grounds(run: "RunView") -> None:
    """Say what an answer that cites nothing rests on, and which citations were removed from it."""
    warnings = []
    if run.grounded in _WARNINGS:
        warnings.append(_WARNINGS[run.grounded])
    if run.dropped_citations:
        removed = "1 citation was" if run.dropped_citations == 1 else f"{run.dropped_citations} citations were"
        warnings.append(f"{removed} removed: no passage that was found has this number.")
    for warning in warnings:
        console = open_console()
        console.print()
        _print_wrapped(console, warning, style="yellow")


def _print_wrapped(console: "Console", text: str, *, indent: int = 0, style: str = "") -> None:
    """Print a text that breaks between words on a terminal, and nowhere in a file."""
    from rich.padding import Padding

    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, indent)), style=style)
    else:
        console.print(" " * indent + text, style=style, soft_wrap=True)


def quote(text: str) -> str:
    """Return the beginning of a passage on one line, in quotation marks."""
    words = visible(" ".join(text.split()))
    if len(words) > _QUOTED_CHARACTERS:
        words = words[:_QUOTED_CHARACTERS].rsplit(" ", 1)[0] + " ..."
    return f'"{words}"'
