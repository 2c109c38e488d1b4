"""Records administrative calls, in the transaction of the change where there is one.

An entry says who made the call, what it is called, which ids its path names and how it ended, and nothing of its body
but the reason for which a call has something done that is refused otherwise.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import pymongo
import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pymongo.errors import PyMongoError
from starlette.responses import Response

from kb_shared.errors import KbError
from kb_shared.http import idempotency
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import ChangeAnswer, recording
from kb_shared.http.problems import as_request_error
from kb_shared.http.request_context import request_id_of
from kb_shared.identifiers import new_id
from kb_shared.mongo import audit_log
from kb_shared.mongo.audit_log import AuditEntry, AuditOutcome
from kb_shared.mongo.database import COMMAND_WITHIN_S, Database, MongoSession

METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""Methods of calls that are recorded; the others change nothing."""
MAX_ID_CHARACTERS: Final = 128
"""Length to which ids of a path are cut: a caller may put anything into a path."""
FAILED_CALL_WITHIN_S: Final = 2.0
"""Seconds to record a call that failed."""

_REASON: Final = "audit_reason"

_log = structlog.get_logger()


async def record_call(
    request: Request,
    handle: Callable[[], Awaitable[Response]],
    *,
    database: Database,
    operation: str,
    success_status: int,
) -> Response:
    """Carry a call out and record it, also if it is refused or fails.

    A call without a valid key, or to another organization, is none of this organization's, and is not recorded.
    """
    recorder = _AuditRecorder(database, request, operation, success_status)
    try:
        with recording(recorder):
            response = await handle()
    except Exception as error:
        if (status := _status_of(error)) != HTTPStatus.TOO_MANY_REQUESTS:
            # Refusals because of too many calls would fill the log.
            await recorder.finish(status)
        raise
    if idempotency.REPLAYED not in response.headers:
        await recorder.finish(response.status_code)
    return response


def give_reason(request: Request, reason: str) -> None:
    """Have the reason recorded for which a call has something done that is refused otherwise."""
    request.scope["state"][_REASON] = reason


@dataclass(slots=True)
class _AuditRecorder:
    """Stores the entry of one call."""

    database: Database
    request: Request
    operation: str
    success_status: int
    entry: AuditEntry | None = None
    is_stored: bool = False

    async def record(self, session: MongoSession, answer: ChangeAnswer | None) -> None:  # noqa: ARG002  # of other recorders
        """Store the entry with the change. It stays as it is: whatever the answer is, the change is in effect."""
        if (entry := self._create_entry()) is not None:
            await audit_log.store(self.database, entry, session=session)
            self.is_stored = True

    async def finish(self, status: int) -> None:
        """Store the entry of a call without a transaction, or without a change."""
        entry = self._create_entry()
        if entry is None or (self.is_stored and status < HTTPStatus.BAD_REQUEST):
            return
        # After a transaction was aborted, the entry does not exist, although it was stored in it.
        ended = replace(entry, status=status, outcome=_outcome_of(status))
        # If MongoDB did not answer the call, it may not answer now, and the caller has waited long enough.
        within_s = FAILED_CALL_WITHIN_S if status >= HTTPStatus.INTERNAL_SERVER_ERROR else COMMAND_WITHIN_S
        try:
            with pymongo.timeout(within_s):
                await audit_log.store_unless_changed(self.database, ended)
        except PyMongoError as error:
            _log.warning("audit.write_failed", operation=self.operation, error=type(error).__name__)

    def _create_entry(self) -> AuditEntry | None:
        caller: Caller | None = self.request.scope["state"].get("caller")
        if self.entry is None and caller is not None:
            ids = self.request.path_params
            self.entry = AuditEntry(
                entry_id=new_id(),
                organization_id=caller.organization_id,
                key_id=caller.key_id,
                operation=self.operation,
                target={
                    name: str(value)[:MAX_ID_CHARACTERS] for name, value in ids.items() if name != "organization_id"
                },
                outcome="succeeded",
                status=self.success_status,
                request_id=request_id_of(self.request.scope),
                at=datetime.now(UTC),
                reason=self.request.scope["state"].get(_REASON),
            )
        return self.entry


def _outcome_of(status: int) -> AuditOutcome:
    if status < HTTPStatus.BAD_REQUEST:
        return "succeeded"
    return "refused" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "failed"


def _status_of(error: Exception) -> int:
    match error:
        case RequestValidationError():
            return HTTPStatus.UNPROCESSABLE_ENTITY
        case KbError():
            return as_request_error(error).status
        case PyMongoError():
            return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.INTERNAL_SERVER_ERROR
