"""Pauses, resumes, reindexes and retags several KBs: each as its own call does, in transactions of its own."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from kb_api.carry_out_entries import UncheckedEntry, carry_out_entries, parse_entry, usable_id
from kb_api.change_knowledge_base import change_knowledge_base
from kb_api.job_response import reindexing_view, retrying_view
from kb_api.life_cycle import LifeCycle
from kb_api.pause_knowledge_base import pause_knowledge_base, resume_knowledge_base
from kb_api.run_job import start_reindexing, start_retrying
from kb_contracts.api.batches import RefusedEntry
from kb_contracts.api.jobs import StartedJob
from kb_contracts.api.knowledge_base_batches import ActionOutcome, BatchedAction, BatchedTagsOfKnowledgeBase
from kb_contracts.api.knowledge_bases import ChangeKnowledgeBase
from kb_contracts.reasons.sentences import unknown_choice
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid_field
from kb_shared.mongo.database import Database

ActionEntry: TypeAlias = BatchedAction | BatchedTagsOfKnowledgeBase

_ACTIONS: Final = ("pause", "resume", "reindex", "retry_failed", "replace_tags")


async def act_on_knowledge_bases(
    database: Database,
    caller: Caller,
    sent: Sequence[Any],
    *,
    max_chunks_limit: int,
    life_cycle: LifeCycle,
) -> list[ActionOutcome]:
    """Carry out each action that is valid; return what became of each, in their order.

    A KB that the key of `caller` is not for has the same problem as one that does not exist.

    Args:
        max_chunks_limit: deployment's limit of `max_chunks_per_document`.
    """
    return await carry_out_entries(
        sent,
        outcome_model=ActionOutcome,
        parse=_parse,
        carry_out=partial(_carry_out, database, caller, max_chunks_limit=max_chunks_limit, life_cycle=life_cycle),
        refuse=_refused,
    )


def _parse(sent: UncheckedEntry) -> ActionEntry:
    match action := sent.get("action"):
        case "replace_tags":
            return parse_entry(BatchedTagsOfKnowledgeBase, sent)
        case "pause" | "resume" | "reindex" | "retry_failed":
            return parse_entry(BatchedAction, sent)
    raise invalid_field("action", unknown_choice(action, _ACTIONS) if "action" in sent else "is missing")


async def _carry_out(
    database: Database, caller: Caller, entry: ActionEntry, *, max_chunks_limit: int, life_cycle: LifeCycle
) -> ActionOutcome:
    kb_id = entry.kb_id
    caller.require_knowledge_base(kb_id)
    if isinstance(entry, BatchedTagsOfKnowledgeBase):
        await change_knowledge_base(
            database,
            caller,
            kb_id=kb_id,
            requested=ChangeKnowledgeBase(tag_ids=entry.tag_ids),
            max_chunks_limit=max_chunks_limit,
            life_cycle=life_cycle,
        )
        return _done(kb_id, "Documents with the new tags are being indexed, others are being removed.")
    match entry.action:
        case "pause":
            await pause_knowledge_base(database, caller, kb_id=kb_id, life_cycle=life_cycle)
            return _done(kb_id, "Nothing more is indexed until it is resumed.")
        case "resume":
            await resume_knowledge_base(database, caller, kb_id=kb_id, life_cycle=life_cycle)
            return _done(kb_id, "The documents that waited are being indexed.")
        case "reindex":
            started = await start_reindexing(database, caller, kb_id=kb_id, life_cycle=life_cycle)
            return _started(kb_id, reindexing_view(started))
        case "retry_failed":
            started = await start_retrying(database, caller, kb_id=kb_id, life_cycle=life_cycle)
            return _started(kb_id, retrying_view(started))


def _done(kb_id: str, message: str) -> ActionOutcome:
    return ActionOutcome(kb_id=kb_id, job_id=None, message=message, problem=None)


def _started(kb_id: str, job: StartedJob) -> ActionOutcome:
    return ActionOutcome(kb_id=kb_id, job_id=job.job_id, message=job.message, problem=None)


def _refused(sent: UncheckedEntry, problem: RefusedEntry) -> ActionOutcome:
    return ActionOutcome(kb_id=usable_id(sent, "kb_id"), job_id=None, message=None, problem=problem)
