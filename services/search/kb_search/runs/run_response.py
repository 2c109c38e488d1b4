"""Responses about runs."""

from dataclasses import asdict
from typing import Any

from kb_contracts.api.runs import CitationView, RunSummary, RunView
from kb_search.store.runs import Run


def to_summary(run: Run) -> RunSummary:
    return RunSummary(**_fields_of(run))


def to_view(run: Run) -> RunView:
    return RunView(**_fields_of(run), messages=run.messages, tool_calls=run.tool_calls)


def _fields_of(run: Run) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in RunSummary.model_fields if name != "citations"},
        "citations": [CitationView(chunk_id=each.citation, **asdict(each)) for each in run.citations],
    }
