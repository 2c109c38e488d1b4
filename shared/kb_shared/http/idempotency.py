"""Carries out a POST with an `Idempotency-Key` once, and answers repeated ones with the answer of the first.

The steps: claim the key, carry the request out, store its answer. If its effect is one transaction, this writes the
answer, too (`commit_change`), so that a process may die after any of these steps. A batch is a transaction for each
entry, which writes the outcome of the entry.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import Final
from uuid import uuid4

import structlog
from fastapi import Request
from pydantic import BaseModel
from pymongo.errors import PyMongoError
from starlette.responses import Response, StreamingResponse

from kb_shared import failpoints
from kb_shared.errors import RequestError
from kb_shared.http.changes import ChangeAnswer, InsteadOfAnswer, current_position, recording
from kb_shared.mongo import idempotency_keys
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.idempotency_keys import IdempotencyKey, StoredAnswer

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
"""Header of an answer that an earlier request got."""
LEASE: Final = timedelta(seconds=30)
"""Time for which a request keeps its key without renewing it. After a crash, a repeated one waits for its end."""
KEY_IN_USE: Final = "idempotency-key-in-use"
"""Slug of the problem of a request that does not hold its key, or not any more."""
MAX_STORED_BYTES: Final = 1_000_000
_KEPT_HEADERS: Final = ("location", "etag")
_USABLE: Final = re.compile(r"[\x21-\x7e]{1,255}")

_log = structlog.get_logger()

ContinueRequest = Callable[[], Awaitable[Response]]


async def answer_once(
    request: Request, handle: ContinueRequest, *, database: Database, caller_id: str, body: bytes, success_status: int
) -> Response:
    """Answer a POST that has the header; the caller checks that.

    Args:
        request: the request, whose path names an organization.
        handle: carries the request out.
        database: database with the keys.
        caller_id: id of the API key of the caller.
        body: the request's body.
        success_status: status of the answer of a request that succeeds.

    Raises:
        RequestError: 422 `validation-error`, `idempotency-key-reused`; 409 `idempotency-key-in-use`; or what the first
            request was answered.
    """
    key = IdempotencyKey(request.path_params["organization_id"], _read_header(request))
    request_hash, owner = _hash(request, caller_id, body), str(uuid4())
    first = await idempotency_keys.claim(database, key, request_hash=request_hash, owner=owner, lease=LEASE)
    if first.request_hash != request_hash:
        raise RequestError(
            422,
            "idempotency-key-reused",
            "This Idempotency-Key was used within the last 24 hours for another request: another method, path, query, "
            "body or API key. Use a new one for each request, and the same one only to repeat it unchanged.",
        )
    if first.answer is not None:
        return _replay(first.answer)
    if first.owner != owner:
        raise _in_use()
    await failpoints.reach("idempotency.after_claim")
    recorder = _AnswerRecorder(database, key, owner=owner, success_status=success_status)
    async with _held(database, key, owner=owner):
        with recording(recorder, outcomes=first.outcomes):
            response = await handle()
    await failpoints.reach("idempotency.after_effect")
    await _store(database, key, owner=owner, response=response)
    return response


class _AnswerRecorder:
    """Writes the answer in the transaction of the effect."""

    def __init__(self, database: Database, key: IdempotencyKey, *, owner: str, success_status: int) -> None:
        self._database = database
        self._key = key
        self._owner = owner
        self._success_status = success_status

    async def record(self, session: MongoSession, answer: ChangeAnswer | None) -> None:
        position = current_position()
        if position is not None and isinstance(answer, BaseModel):
            is_held = await idempotency_keys.write_outcome_in_transaction(
                self._database,
                session,
                self._key,
                owner=self._owner,
                position=position,
                outcome=answer.model_dump_json(by_alias=True).encode(),
            )
        else:
            stored = None if answer is None else _stored(answer, self._success_status)
            is_held = await idempotency_keys.write_in_transaction(
                self._database, session, self._key, owner=self._owner, answer=stored
            )
        if not is_held:
            raise _in_use()


@asynccontextmanager
async def _held(database: Database, key: IdempotencyKey, *, owner: str) -> AsyncIterator[None]:
    """Keep the lease during the block, and release the key if the block fails without an effect."""
    renewing = asyncio.create_task(_renew(database, key, owner=owner))
    try:
        yield
    except Exception:
        renewing.cancel()
        # If this fails, too, the lease ends by itself.
        try:
            await idempotency_keys.release(database, key, owner=owner)
        except PyMongoError as error:
            _log.warning("idempotency_key.release_failed", error=type(error).__name__)
        raise
    finally:
        renewing.cancel()


async def _renew(database: Database, key: IdempotencyKey, *, owner: str) -> None:
    while True:
        await asyncio.sleep(LEASE.total_seconds() / 3)
        try:
            await idempotency_keys.renew(database, key, owner=owner, lease=LEASE)
        except PyMongoError as error:
            # The transaction of the effect checks whether the key is still held.
            _log.warning("idempotency_key.renewal_failed", error=type(error).__name__)


async def _store(database: Database, key: IdempotencyKey, *, owner: str, response: Response) -> None:
    if isinstance(response, StreamingResponse) or len(response.body) > MAX_STORED_BYTES:
        return
    headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    answer = StoredAnswer(response.status_code, bytes(response.body), headers)
    try:
        await idempotency_keys.store_answer(database, key, owner=owner, answer=answer)
    except PyMongoError as error:
        # The caller gets its answer. A repeated request gets the one that was stored with the effect.
        _log.warning("idempotency_key.write_failed", error=type(error).__name__)


def _stored(answer: ChangeAnswer, success_status: int) -> StoredAnswer:
    if isinstance(answer, BaseModel):
        return StoredAnswer(success_status, answer.model_dump_json(by_alias=True).encode(), is_final=False)
    error = answer.error if isinstance(answer, InsteadOfAnswer) else answer
    refusal = {"slug": error.slug, "detail": error.detail, "extra": error.extra}
    return StoredAnswer(error.status, json.dumps(refusal).encode(), is_final=isinstance(answer, InsteadOfAnswer))


def _replay(answer: StoredAnswer) -> Response:
    if answer.status >= HTTPStatus.BAD_REQUEST:
        refusal = json.loads(answer.body)
        raise RequestError(answer.status, refusal["slug"], refusal["detail"], extra=refusal["extra"])
    headers = {**answer.headers, REPLAYED: "true"}
    return Response(answer.body, answer.status, headers, media_type="application/json")


def _in_use() -> RequestError:
    return RequestError(
        409,
        KEY_IN_USE,
        "A request with this Idempotency-Key is being carried out; send it again in a second.",
        retry_after_s=1,
    )


def _read_header(request: Request) -> str:
    given = request.headers.getlist(HEADER)
    if len(given) != 1 or not _USABLE.fullmatch(given[0]):
        raise RequestError(
            422,
            "validation-error",
            "Send one header Idempotency-Key with 1 to 255 visible ASCII characters, such as a UUID.",
            extra={"fields": [{"field": HEADER, "message": "must be 1 to 255 visible ASCII characters"}]},
        )
    return given[0]


def _hash(request: Request, caller_id: str, body: bytes) -> str:
    parts = (request.method, request.url.path, request.url.query, caller_id)
    digest = hashlib.sha256("\n".join(parts).encode())
    digest.update(b"\n" + body)
    return digest.hexdigest()
