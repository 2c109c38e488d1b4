"""Sums up what goes on in an organization: work, what is paused, what is broken, what is searched."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from kb_contracts.api.llm_providers import ProviderPauseView
from kb_contracts.api.operations import (
    BrokenKnowledgeBase,
    JobsOfState,
    MostSearchedKnowledgeBase,
    OperationCounts,
    OperationsView,
    PausedKnowledgeBase,
    UnusableModel,
    WaitingJobs,
)
from kb_shared.mongo import (
    backfills,
    circuits,
    dead_letters,
    index_jobs,
    knowledge_bases,
    outbox,
    provider_pauses,
    query_log,
)
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

SEARCHES_OF: Final = timedelta(days=7)
MOST_SEARCHED: Final = 5
MOST_COUNTED: Final = 1_000


async def load_operations(database: Database, organization_id: str) -> OperationsView:
    """Count what is open. Each query reads only rows of the organization, by an index."""
    summary = await index_jobs.summarize(database, organization_id)
    kbs = await knowledge_bases.find_of_organization(database, organization_id)
    pauses = await provider_pauses.find_all(database, organization_id)
    unusable = await circuits.find_open(database, organization_id)
    return OperationsView(
        jobs=[
            JobsOfState(state=state.value, count=found.count, oldest_at=found.oldest_at)
            for state, found in sorted(summary.states.items())
        ],
        is_exact=summary.is_exact,
        waiting=[WaitingJobs(error_type=error, count=count) for error, count in sorted(summary.waiting.items())],
        running_jobs=await backfills.count_running(database, organization_id),
        paused_knowledge_bases=[
            PausedKnowledgeBase(kb_id=kb.kb_id, name=kb.name, paused_at=kb.paused_at) for kb in kbs if kb.paused_at
        ],
        paused_providers=[
            ProviderPauseView(provider=provider, paused_at=pause.paused_at, paused_by=pause.paused_by)
            for provider, pause in pauses.items()
        ],
        failed_knowledge_bases=[
            BrokenKnowledgeBase(kb_id=kb.kb_id, name=kb.name, reason=kb.status_reason)
            for kb in kbs
            if kb.status is Status.ERROR
        ],
        most_searched=await _find_most_searched(database, organization_id, kbs),
        unusable_models=[
            UnusableModel(model=each.model, cause=each.cause.value, until=each.until) for each in unusable
        ],
        dead_letters=await dead_letters.count_open_of(database, organization_id),
        unsendable_messages=await outbox.count_unsendable_of(database, organization_id),
    )


async def count_operations(database: Database, organization_id: str) -> OperationCounts:
    """Count what needs attention, up to a limit. Each count reads an index of few rows, for pages that ask often."""
    letters = await dead_letters.count_open_of(database, organization_id, limit=MOST_COUNTED)
    failed = await index_jobs.count_failed_of(database, organization_id, limit=MOST_COUNTED)
    return OperationCounts(dead_letters=letters, failed_documents=failed, is_exact=max(letters, failed) < MOST_COUNTED)


async def _find_most_searched(
    database: Database, organization_id: str, kbs: Sequence[KnowledgeBase]
) -> list[MostSearchedKnowledgeBase]:
    names = {kb.kb_id: kb.name for kb in kbs}
    searched = await query_log.find_most_searched(
        database, organization_id, kb_ids=names, since=datetime.now(UTC) - SEARCHES_OF, limit=MOST_SEARCHED
    )
    return [MostSearchedKnowledgeBase(kb_id=kb_id, name=names[kb_id], searches=n) for kb_id, n in searched.items()]
