"""Shows a run while it goes on: what the model does, its answer as it writes, and the passages that it cites."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kb_client.command_line.output import open_console, visible
from kb_client.command_line.search import describe_copies, describe_place

if TYPE_CHECKING:
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
        self._is_within_line = False

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()
        self._end_line()

    def show(self, event: "RunEvent") -> None:
        """Print what an event says."""
        if event.event == "tool.called":
            self._status.update("searching")
        elif event.event == "answer.delta":
            self._status.stop()
            self._write(event.data)

    def _write(self, delta: "AnswerDelta") -> None:
        if delta.iteration != self._iteration:
            self._end_line()
        self._iteration, text = delta.iteration, visible(delta.text)
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_within_line = bool(text) and not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_within_line:
            print()
        self._is_within_line = False


def print_footnotes(citations: "list[CitationView]") -> None:
    """Print document, page and quote of each passage that an answer cites."""
    console = open_console()
    for citation in sorted(citations, key=lambda each: each.number):
        place = describe_place(citation.source, citation.heading_path, citation.page_start, page_end=citation.page_end)
        known = [visible(citation.source), *place, describe_copies(citation.also_in)]
        console.print(f"\n[{citation.number}] {', '.join(filter(None, known))}", soft_wrap=True)
        if citation.text:
            console.print(f"    {quote(citation.text)}", style="dim", soft_wrap=True)


def print_grounds(run: "RunView") -> None:
    """Say what an answer that cites nothing rests on, and which citations were removed from it."""
    warnings = []
    if run.grounded in _WARNINGS:
        warnings.append(_WARNINGS[run.grounded])
    if run.dropped_citations:
        removed = "1 citation was" if run.dropped_citations == 1 else f"{run.dropped_citations} citations were"
        warnings.append(f"{removed} removed: no passage that was found has this number.")
    for warning in warnings:
        open_console().print(f"\n{warning}", style="yellow", soft_wrap=True)


def quote(text: str) -> str:
    """Return the beginning of a passage on one line, in quotation marks."""
    words = visible(" ".join(text.split()))
    if len(words) > _QUOTED_CHARACTERS:
        words = words[:_QUOTED_CHARACTERS].rsplit(" ", 1)[0] + " ..."
    return f'"{words}"'
