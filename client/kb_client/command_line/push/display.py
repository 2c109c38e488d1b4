"""Shows a push: a live line for each file that is on its way, and one that stays when it has arrived."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kb_client.command_line.counts import count_passages, describe_seconds
from kb_client.command_line.output import open_console, visible
from kb_client.command_line.push.report import FileOutcome

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_LIVE_LINES: Final = 8
_MARKS: Final = {"searchable": "ok", "sent": "sent", "retagged": "tags", "deleted": "del"}
_PROBLEM: Final = "FAIL"
_STYLES: Final = {"searchable": "green", "unreadable": "red", "failed": "red"}


class PushDisplay:
    """Lines of a push. Off a terminal only those that stay; with `--json` none.

    Args:
        enabled: whether to print anything.
        total: number of files on their way.
    """

    def __init__(self, *, enabled: bool, total: int = 0) -> None:
        self._enabled = enabled
        self._console = open_console()
        self._total = total
        self._done = 0
        self._active: dict[str, tuple[str, float]] = {}
        self._passages: tuple[int, int] | None = None
        self._seconds_left: float | None = None
        self.all_sent = False
        """True once no further file will be sent."""
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._enabled and self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def expect(self, more: int) -> None:
        """Count more lines than there are files: one of them is sent in parts."""
        self._total += more

    def show_passages(self, done: int, *, total: int, seconds_left: float | None) -> None:
        """Show how far the indexing is, of all files together."""
        self._passages, self._seconds_left = (done, total) if total else None, seconds_left

    def say(self, sentence: str) -> None:
        """Print a sentence that stays."""
        if self._enabled:
            self._console.print(visible(sentence), soft_wrap=True, highlight=False, markup=False)

    def show(self, file: str, state: str) -> None:
        """Show what happens to a file now."""
        _, began_at = self._active.get(file, ("", time.monotonic()))
        self._active[file] = (state, began_at)

    def finish(self, outcome: FileOutcome) -> None:
        """Print the line of a file that has arrived or failed."""
        _, began_at = self._active.pop(outcome.file, ("", time.monotonic()))
        self._done += 1
        self.print(outcome, took_s=time.monotonic() - began_at)

    def print(self, outcome: FileOutcome, *, took_s: float = 0.0) -> None:
        """Print the line of a file, also of one that was not on its way."""
        if not self._enabled:
            return
        from rich.text import Text

        line = Text(f"{_MARKS.get(outcome.outcome, _PROBLEM):>4}  ", style=_STYLES.get(outcome.outcome, ""))
        line.append(visible(outcome.file), style="default")
        details = [] if outcome.passages is None else [count_passages(outcome.passages)]
        if outcome.outcome in ("searchable", "sent"):
            details.append(f"{took_s:.1f} s")
        if outcome.reason:
            details.append(visible(outcome.reason))
        line.append("".join(f"  {each}" for each in details), style="dim" if outcome.outcome in _MARKS else "default")
        self._console.print(line, soft_wrap=True)
        for warning in outcome.warnings:
            self._console.print(Text(f"      {visible(warning)}", style="yellow"), soft_wrap=True)

    def _render(self) -> "RenderableType":
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.text import Text

        now = time.monotonic()
        lines = [
            Text(f"  ..  {visible(file)}  {state} {now - began_at:.0f} s", no_wrap=True, overflow="ellipsis")
            for file, (state, began_at) in list(self._active.items())[:_LIVE_LINES]
        ]
        if (more := len(self._active) - _LIVE_LINES) > 0:
            lines.append(Text(f"      and {more:,} more"))
        done, total = self._passages or (self._done, self._total)
        bar = ProgressBar(total=max(total, 1), completed=done, width=40)
        return Group(*lines, Spinner("dots", Text(self._describe_progress())), bar)

    def _describe_progress(self) -> str:
        said = [f"{self._done:,} of {self._total:,} files"]
        if self._passages is not None:
            done, total = self._passages
            said.append(f"{done:,} of about {count_passages(total)}")
        if self._seconds_left is not None:
            said.append(f"{describe_seconds(self._seconds_left)} left")
        return ", ".join(said)
