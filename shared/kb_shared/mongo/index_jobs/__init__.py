"""`index_jobs`: open work for a document in a KB. Nothing waits in a partition: what can't be done now waits here.

    waiting_for_text   nothing to do until the document's text comes
    pending            due at `next_attempt_at`
    running            somebody works on it until `lease_until`; an expired lease is due
    failed             no attempt will be made until the document or the KB changes, or a retry is asked for
    paused             kept until the KB is resumed, which asks for it again

Each request gives the job a new `token`; who finishes it deletes it only with the token it began with, so a request
that arrives meanwhile is not lost.
"""

from kb_shared.mongo.index_jobs.due import make_all_due, make_due, published, take_due
from kb_shared.mongo.index_jobs.job import (
    INDEXES,
    NAME,
    PUBLISH_GRACE,
    SUSPECT_AFTER,
    UNCLAIMED_GRACE,
    UNDONE,
    IndexJob,
    IndexJobState,
    row_id,
)
from kb_shared.mongo.index_jobs.queries import (
    BACKLOG_LIMIT,
    any_open,
    count_all_open,
    count_by_state,
    count_failed,
    count_of_backfill,
    count_open,
    delete_of_kb,
    find,
    in_states,
    of_documents,
    of_kb,
    open_ids,
)
from kb_shared.mongo.index_jobs.requests import Opened, Request, note_published, request, unforce
from kb_shared.mongo.index_jobs.work import (
    claim,
    claim_all,
    extend,
    fail,
    finish,
    give_back,
    note_alone,
    pause,
    postpone,
    wait_for_text,
)

__all__ = [
    "BACKLOG_LIMIT",
    "INDEXES",
    "NAME",
    "PUBLISH_GRACE",
    "SUSPECT_AFTER",
    "UNCLAIMED_GRACE",
    "UNDONE",
    "IndexJob",
    "IndexJobState",
    "Opened",
    "Request",
    "any_open",
    "claim",
    "claim_all",
    "count_all_open",
    "count_by_state",
    "count_failed",
    "count_of_backfill",
    "count_open",
    "delete_of_kb",
    "extend",
    "fail",
    "find",
    "finish",
    "give_back",
    "in_states",
    "make_all_due",
    "make_due",
    "note_alone",
    "note_published",
    "of_documents",
    "of_kb",
    "open_ids",
    "pause",
    "postpone",
    "published",
    "request",
    "row_id",
    "take_due",
    "unforce",
    "wait_for_text",
]
