"""Responses about runs."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from kb_contracts.api.runs import CitationView, RunSummary, RunView
from kb_contracts.api.threads import RunOfThread
from kb_search.store.runs import Run
from kb_shared.mongo import documents
from kb_shared.mongo.database import Database


async def find_deleted_documents(database: Database, runs: Sequence[Run]) -> set[str]:
    """Return those documents that the runs of an organization cite and that have been deleted since."""
    cited = {citation.document_id for run in runs for citation in run.citations}
    return await documents.find_deleted(database, runs[0].organization_id, document_ids=cited) if cited else set()


def to_summary(run: Run, *, deleted: Collection[str] = ()) -> RunSummary:
    """Build the response; `deleted` are the documents of citations that have been deleted since."""
    return RunSummary(**_fields_of(run, deleted))


def to_run_of_thread(run: Run, *, deleted: Collection[str], with_tool_calls: bool) -> RunOfThread:
    return RunOfThread(**_fields_of(run, deleted), tool_calls=run.tool_calls if with_tool_calls else None)


def to_view(run: Run, *, deleted: Collection[str] = ()) -> RunView:
    return RunView(
        **_fields_of(run, deleted), messages=run.messages, tool_calls=run.tool_calls, injections=run.injections
    )


def _fields_of(run: Run, deleted: Collection[str]) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in RunSummary.model_fields if name != "citations"},
        "citations": [
            CitationView(chunk_id=each.citation, document_deleted=each.document_id in deleted, **asdict(each))
            for each in run.citations
        ],
    }
