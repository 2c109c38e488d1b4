"""Output of the demo: text for a person, or only JSON at the end."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kb_local.demo.figures import Figures


class DemoOutput:
    """Prints steps and results; with `as_json`, they go to stderr, and stdout gets only the figures."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(stderr=as_json, highlight=False, soft_wrap=True)

    def print_step(self, text: str) -> None:
        self._console.print(f"[bold cyan]>[/] {text}")

    def print_line(self, text: str) -> None:
        self._console.print(f"  {text}")

    @contextmanager
    def show_progress(self, what: str, total: int) -> Iterator["Bar"]:
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=False) as progress:
            yield Bar(progress, progress.add_task(what, total=total))

    def print_results(self, question: str, knowledge_base: str, *, results: list[dict[str, Any]]) -> None:
        self._console.print(f'\n  [bold]"{question}"[/]  in {knowledge_base}')
        for result in results:
            passage = " ".join(result["content"].split())[:180]
            self._console.print(f"    {result['score']:.3f}  [green]{result['source']}[/]", markup=True)
            self._console.print(f"           {passage}", markup=False, style="dim")

    def print_answer(self, run: dict[str, Any]) -> None:
        self._console.print(f"    {run['model']} answers (it quotes passages; not a language model):", style="cyan")
        self._console.print(f"      {run['answer']}", markup=False)
        for citation in run["citations"]:
            place = f"chunk {citation['chunk_index']}"
            self._console.print(
                f"      [{citation['number']}] {citation['source']}, {place}", markup=False, style="dim"
            )

    def print_figures(self, figures: Figures) -> None:
        if self._as_json:
            json.dump(asdict(figures), sys.stdout, indent=2)
            sys.stdout.write("\n")
            return
        searchable = figures.searchable_ms
        self.print_step("Figures")
        for kb in figures.knowledge_bases:
            self.print_line(f"{kb['name']}: {kb['document_count']} documents, {kb['chunk_count']} chunks")
        self.print_line(f"{figures.documents} documents, {figures.chunks} chunks, indexed in {figures.bulk_s:.1f} s")
        self.print_line(
            f"{figures.embeddings_generated} embeddings generated, {figures.embeddings_from_cache} read from the"
            f" cache, {figures.spus} SPUs charged"
        )
        self.print_line(
            f"time from event to searchable ({searchable['events']:.0f} single events):"
            f" p50 {searchable['p50']:.0f} ms, p95 {searchable['p95']:.0f} ms"
        )
        self.print_line(f"total time: {figures.total_s:.0f} s")

    def print_next_steps(self) -> None:
        self._console.print(
            """
[bold]Try next[/]
  kb up                 start the stack in the background
  kb docs push FOLDER   make a knowledge base of the files of a folder
  kb ask "..."          ask it
  kb down               stop the stack; the data is kept

In a checkout, `source .venv/bin/activate` puts kb on the PATH."""
        )


class Bar:
    def __init__(self, progress: Progress, task: Any) -> None:
        self._progress = progress
        self._task = task

    def show_completed(self, done: int) -> None:
        self._progress.update(self._task, completed=done)
