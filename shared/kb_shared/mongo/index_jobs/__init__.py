"""`index_jobs`: open work for a document in a KB. Work that can't be done now waits here, not in a partition.

    waiting_for_text   waits for the text of its document
    pending            due at `next_attempt_at`
    running            a worker holds its lease until `lease_until`; with an expired lease it is due
    failed             not attempted until the document or the KB changes, or a retry is requested
    paused             kept until the KB is resumed, which requests it again

A pending or running job is either in a lane of Kafka (`in_lane`), or waits for its next attempt, or is `queued`: it is
due, and its command is published when fewer jobs of its KB and its organization are in the lanes.

Each request gives the job a new `token`. A worker deletes the job only with the token that it claimed, so a request
that arrives meanwhile is not lost.
"""

from kb_shared.mongo.index_jobs.due import find_stuck, make_all_due, make_due, release_stuck, take_due
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
    build_first_open_stage,
    count_all_open,
    count_by_state,
    count_failed,
    count_failed_of,
    count_of_backfill,
    count_open,
    count_states_of_kb,
    delete_of_kb,
    find,
    find_errors,
    find_in_states,
    find_oldest_events,
    find_open_ids,
    find_states,
    is_any_open,
    sample_in_states,
    summarize,
)
from kb_shared.mongo.index_jobs.queue import (
    LANE_LIMITS,
    QUEUED,
    LaneLimits,
    count_in_lanes,
    find_queued_kbs,
    find_queued_organizations,
    queue_all,
    take_queued,
)
from kb_shared.mongo.index_jobs.requests import Opened, SyncRequest, note_published, request, unforce
from kb_shared.mongo.index_jobs.work import (
    claim_all,
    extend,
    fail,
    finish,
    give_back,
    note_alone,
    note_embedded,
    pause,
    postpone,
    wait_for_text,
)

__all__ = [
    "BACKLOG_LIMIT",
    "INDEXES",
    "LANE_LIMITS",
    "NAME",
    "PUBLISH_GRACE",
    "QUEUED",
    "SUSPECT_AFTER",
    "UNCLAIMED_GRACE",
    "UNDONE",
    "IndexJob",
    "IndexJobState",
    "LaneLimits",
    "Opened",
    "SyncRequest",
    "build_first_open_stage",
    "claim_all",
    "count_all_open",
    "count_by_state",
    "count_failed",
    "count_failed_of",
    "count_in_lanes",
    "count_of_backfill",
    "count_open",
    "count_states_of_kb",
    "delete_of_kb",
    "extend",
    "fail",
    "find",
    "find_errors",
    "find_in_states",
    "find_oldest_events",
    "find_open_ids",
    "find_queued_kbs",
    "find_queued_organizations",
    "find_states",
    "find_stuck",
    "finish",
    "give_back",
    "is_any_open",
    "make_all_due",
    "make_due",
    "note_alone",
    "note_embedded",
    "note_published",
    "pause",
    "postpone",
    "queue_all",
    "release_stuck",
    "request",
    "row_id",
    "sample_in_states",
    "summarize",
    "take_due",
    "take_queued",
    "unforce",
    "wait_for_text",
]
