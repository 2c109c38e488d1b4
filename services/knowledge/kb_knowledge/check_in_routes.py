import json
from dataclasses import asdict
from typing import Final

from kb_contracts.api.check_ins import CheckInList, CheckInSummary, CheckInView, StructureText
from kb_knowledge.dependencies import Cursors, Database, LargeBodies, Reader, TextStructurer, Writer
from kb_knowledge.store import check_ins
from kb_knowledge.store.check_ins import CheckIn, CheckInKey
from kb_shared.http.admission import long_running
from kb_shared.http.changes import commit_change
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.model import DEFAULT_LIMIT, Limit
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router

EXCERPT_CHARACTERS: Final = 200
_LIST: Final = "check-ins"

router = organization_router("knowledge")


@router.post(
    "/knowledge:structure",
    operation_id="knowledge.structure",
    summary="Turn a text into knowledge",
    status_code=201,
    responses=responses(
        "budget-exhausted",
        "invalid-answer",
        "messages-refused",
        "model-not-allowed",
        "provider-key-missing",
        "provider-refused",
        "provider-unavailable",
        "sensitive-content",
        "unknown-model",
        "unknown-price",
    ),
)
@long_running
async def structure(
    database: Database, structurer: TextStructurer, bodies: LargeBodies, caller: Writer, body: StructureText
) -> CheckInView:
    """Let a chat model propose entities, pieces and a graph from a text, and keep the proposal as a check-in.

    Nothing is stored of it before it is applied, with `apply` or with `POST /check-ins/{check_in_id}/apply`.
    """
    check_in = await structurer.propose(caller, body, thread=bodies.thread)
    await commit_change(
        database, lambda session: check_ins.insert(database, session, check_in), answer=lambda _: _view(check_in)
    )
    if body.apply:
        check_in = await structurer.apply(caller, check_in.check_in_id, thread=bodies.thread)
    return _view(check_in)


@router.get("/check-ins", operation_id="check_ins.list", summary="List check-ins")
async def list_all(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    cursor: CursorParameter = None,
    limit: Limit = DEFAULT_LIMIT,
) -> CheckInList:
    """List the texts that models turned into knowledge, newest first. They are kept for 90 days."""
    scope = CursorScope(caller.organization_id, _LIST, {})
    found, total_count = await check_ins.find_page(
        database, caller.organization_id, after=cursors.read(scope, cursor), limit=limit
    )
    return CheckInList(
        check_ins=[CheckInSummary(**_summary(each)) for each in found],
        total_count=total_count,
        next_cursor=cursors.create_next(scope, found, limit=limit, position=lambda each: each.check_in_id),
    )


@router.get("/check-ins/{check_in_id}", operation_id="check_ins.get", summary="Get a check-in")
async def get(database: Database, caller: Reader, check_in_id: str) -> CheckInView:
    """Return a check-in with its text and its proposal."""
    return _view(await check_ins.get(database, CheckInKey(caller.organization_id, check_in_id)))


@router.post("/check-ins/{check_in_id}/apply", operation_id="check_ins.apply", summary="Apply a check-in")
@long_running
async def apply(structurer: TextStructurer, bodies: LargeBodies, caller: Writer, check_in_id: str) -> CheckInView:
    """Import the proposal of a check-in. Applying it again changes nothing that is stored as it says."""
    return _view(await structurer.apply(caller, check_in_id, thread=bodies.thread))


def _summary(check_in: CheckIn) -> dict[str, object]:
    return {
        **{name: value for name, value in asdict(check_in).items() if name in CheckInSummary.model_fields},
        "excerpt": check_in.text[:EXCERPT_CHARACTERS],
        "warning_count": len(check_in.warnings),
    }


def _view(check_in: CheckIn) -> CheckInView:
    return CheckInView.model_validate(
        {
            **_summary(check_in),
            "text": check_in.text,
            "proposal": json.loads(check_in.proposal),
            "warnings": check_in.warnings,
            "artifacts": check_in.artifacts,
        }
    )
