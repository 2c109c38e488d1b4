from dataclasses import asdict
from typing import Annotated

from fastapi import Query, Request, Response
from starlette.responses import StreamingResponse

from kb_contracts.api.model import MessageResponse, Timestamp
from kb_contracts.api.run_events import RunEvent
from kb_contracts.api.runs import RunFeedback, RunList, RunRequest, RunSummary, RunView, WantedRunStatus
from kb_contracts.api.threads import CreateThread, ThreadList, ThreadView, ThreadWithRuns
from kb_search.dependencies import (
    Conductor,
    Cursors,
    Database,
    Preparation,
    Reader,
    RequestLimits,
    Runner,
    Settings,
    ThreadCreator,
    Writer,
)
from kb_search.origin import OriginHeader, to_origin
from kb_search.runs.events import discard_event
from kb_search.runs.limited_callers import owner_if_limited, require_own_thread
from kb_search.runs.run_response import find_deleted_documents, to_run_of_thread, to_summary, to_view
from kb_search.runs.streaming import cancel_on_disconnect, stream_events
from kb_search.store import runs
from kb_search.store.keys import RunKey, ThreadKey
from kb_search.store.runs import RunStatus, RunsWanted, Thread
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.admission import long_running
from kb_shared.http.changes import commit_change, record_beforehand
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.openapi import EVENT_STREAM, event_stream
from kb_shared.http.problems import responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.identifiers import new_id
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.query_log import Origin
from kb_shared.mongo.stored_time import now

router = organization_router("runs")

WantedId = Annotated[str | None, Query(min_length=1, max_length=128, description="Only runs with this one.")]


@router.post(
    "/runs",
    operation_id="runs.create",
    summary="Run a prompt, an agent or a question",
    response_model=RunView,
    responses=event_stream(RunEvent, description="The finished run, or its events as they happen.")
    | responses(
        "budget-exhausted",
        "invalid-answer",
        "messages-refused",
        "model-not-allowed",
        "provider-key-missing",
        "unknown-model",
        "provider-refused",
        "provider-unavailable",
        "run-begun",
        "run-cancelled",
        "run-budget-exhausted",
        "unknown-price",
        "waiting-for-text",
    ),
)
@long_running
@open_to_limited_keys
async def start(
    database: Database,
    limits: RequestLimits,
    preparation: Preparation,
    conductor: Conductor,
    caller: Runner,
    *,
    body: RunRequest,
    request: Request,
    origin: OriginHeader = "sdk",
) -> Response | RunView:
    """Let a chat model search and answer.

    Returns the finished run, or its events as they happen with `Accept: text/event-stream`. The run is cancelled when
    the connection is closed.
    """
    if body.document_id is not None:
        # Its text is shown to the model, which repeats it when it is asked to.
        caller.check(Scope.READ)
    await limits.count_request("run", caller)
    plan = await preparation.plan(caller, body, origin=to_origin(origin))
    await record_beforehand(database, _begun(plan.run_id))
    if EVENT_STREAM in request.headers.get("accept", ""):
        events = stream_events(request, lambda send_event: conductor.conduct(plan, send_event))
        # Told to proxies that would keep events back until there are enough of them.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type=EVENT_STREAM, headers=headers)
    return to_view(await cancel_on_disconnect(request, conductor.conduct(plan, discard_event)))


def _begun(run_id: str) -> RequestError:
    return RequestError(
        409,
        "run-begun",
        f"An earlier request with this Idempotency-Key began the run {run_id!r}: GET /runs/{{run_id}} returns it. If "
        "that is 404, it was not begun; send the request again with a new Idempotency-Key.",
        extra={"run_id": run_id},
    )


@router.get("/runs", operation_id="runs.list", summary="List runs")
@open_to_limited_keys
async def list_all(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    cursor: CursorParameter = None,
    thread_id: WantedId = None,
    agent_id: WantedId = None,
    prompt_id: WantedId = None,
    kb_id: WantedId = None,
    status: Annotated[WantedRunStatus | None, Query(description="Only runs with this status.")] = None,
    origin: Annotated[Origin | None, Query(description="Only runs that clients of this kind started.")] = None,
    since: Annotated[Timestamp | None, Query(alias="from", description="Only runs that began then or later.")] = None,
    until: Annotated[Timestamp | None, Query(alias="to", description="Only runs that began before.")] = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> RunList:
    """List the runs of the organization, newest first. They are kept for 90 days.

    A key that is limited to knowledge bases sees its own runs and conversations only.
    """
    wanted = RunsWanted(
        thread_id=thread_id,
        agent_id=agent_id,
        prompt_id=prompt_id,
        kb_id=kb_id,
        key_id=owner_if_limited(caller),
        origin=origin,
        status=RunStatus(status) if status else None,
        since=since,
        until=until,
    )
    scope = CursorScope(caller.organization_id, "runs", asdict(wanted))
    before = cursors.read(scope, cursor, skip=skip)
    found, total_count = await runs.page(
        database, caller.organization_id, wanted, before=before, skip=skip, limit=limit
    )
    deleted = await find_deleted_documents(database, found)
    return RunList(
        runs=[to_summary(run, deleted=deleted) for run in found],
        total_count=total_count,
        next_cursor=cursors.create_next(scope, found, limit=limit, position=lambda run: run.run_id),
    )


@router.get("/runs/{run_id}", operation_id="runs.get", summary="Get a run")
@open_to_limited_keys
async def get(database: Database, caller: Reader, run_id: str) -> RunView:
    """Return a run with its messages and tool calls."""
    run = await runs.get(database, RunKey(caller.organization_id, run_id))
    if owner_if_limited(caller) not in (None, run.key_id):
        raise NotFound("run")
    return to_view(run, deleted=await find_deleted_documents(database, [run]))


@router.post(
    "/runs/{run_id}/cancel",
    operation_id="runs.cancel",
    summary="Cancel a run",
    status_code=202,
    responses=responses("run-ended"),
)
@open_to_limited_keys
async def cancel(database: Database, caller: Runner, run_id: str) -> RunSummary:
    """Ask for the end of a run that goes on: it ends within a second or two, with the status `cancelled`."""
    key = RunKey(caller.organization_id, run_id)
    run = await runs.get(database, key)
    if owner_if_limited(caller) not in (None, run.key_id):
        raise NotFound("run")
    if not await runs.request_cancellation(database, key):
        raise RequestError(409, "run-ended", "The run has ended already; GET /runs/{run_id} returns it.")
    return to_summary(run)


@router.put("/runs/{run_id}/feedback", operation_id="runs.set_feedback", summary="Judge the answer of a run")
@open_to_limited_keys
async def set_feedback(database: Database, caller: Runner, run_id: str, body: RunFeedback) -> RunView:
    """Store a judgement on a run that has ended, in place of an earlier one. It is kept as long as the run."""
    key = RunKey(caller.organization_id, run_id)
    if owner_if_limited(caller) not in (None, (await runs.get(database, key)).key_id):
        raise NotFound("run")
    return to_view(await runs.set_feedback(database, key, rating=body.rating, comment=body.comment))


@router.post(
    "/threads",
    operation_id="threads.create",
    status_code=201,
    summary="Create a conversation",
    responses=responses("quota-exceeded"),
)
@open_to_limited_keys
async def create_thread(
    database: Database, settings: Settings, caller: ThreadCreator, body: CreateThread
) -> ThreadView:
    """Create a conversation, to which runs can be added with `thread_id`."""
    await require_quota(
        lambda: runs.count_threads(database, caller.organization_id),
        settings.max_threads,
        things="conversations",
        setting="KB_MAX_THREADS",
    )
    thread = Thread(new_id(), caller.organization_id, body.title, now(), caller.key_id)
    await commit_change(
        database,
        lambda session: runs.insert_thread(database, thread, session=session),
        answer=lambda _: _thread_view(thread),
    )
    return _thread_view(thread)


@router.get("/threads", operation_id="threads.list", summary="List conversations")
@open_to_limited_keys
async def list_threads(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    cursor: CursorParameter = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> ThreadList:
    """List the conversations of the organization, newest first."""
    owner = owner_if_limited(caller)
    scope = CursorScope(caller.organization_id, "threads", {"created_by": owner})
    before = cursors.read(scope, cursor, skip=skip)
    found, total_count = await runs.list_threads(
        database, caller.organization_id, created_by=owner, before=before, skip=skip, limit=limit
    )
    return ThreadList(
        threads=[_thread_view(thread) for thread in found],
        total_count=total_count,
        next_cursor=cursors.create_next(scope, found, limit=limit, position=lambda thread: thread.thread_id),
    )


@router.get("/threads/{thread_id}", operation_id="threads.get", summary="Get a conversation")
@open_to_limited_keys
async def get_thread(
    database: Database,
    caller: Reader,
    thread_id: str,
    *,
    with_tool_calls: Annotated[
        bool, Query(description="Return the calls of tools of each run as well, with their results.")
    ] = False,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> ThreadWithRuns:
    """Return a conversation with its runs and their citations.

    With `with_tool_calls=true`, one request returns all that a chat shows when it is opened again.
    """
    thread = await runs.get_thread(database, ThreadKey(caller.organization_id, thread_id))
    require_own_thread(caller, thread)
    wanted = RunsWanted(thread_id=thread_id, key_id=owner_if_limited(caller))
    found, total_count = await runs.page(
        database, caller.organization_id, wanted, with_tool_calls=with_tool_calls, skip=skip, limit=limit
    )
    deleted = await find_deleted_documents(database, found)
    shown = [to_run_of_thread(run, deleted=deleted, with_tool_calls=with_tool_calls) for run in found]
    return ThreadWithRuns(**_thread_view(thread).model_dump(), runs=shown, total_count=total_count)


@router.delete("/threads/{thread_id}", operation_id="threads.delete", summary="Delete a conversation")
async def delete_thread(database: Database, caller: Writer, thread_id: str) -> MessageResponse:
    """Delete a conversation with its runs."""
    await runs.delete_thread(database, ThreadKey(caller.organization_id, thread_id))
    return MessageResponse(message="Thread deleted successfully")


def _thread_view(thread: Thread) -> ThreadView:
    return ThreadView(thread_id=thread.thread_id, title=thread.title, created_at=thread.created_at)
