"""API keys: create one, which is shown once, and revoke one."""

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import FormData

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.administration.organization_settings import SETTINGS, list_knowledge_base_names, refuse_without_admin
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_console.paging import ROWS, ListPage, Paging
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.api_keys import ApiKeyView, KeyScope
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

KEYS: Final = "keys"
TAB: Final = "API keys"
SCOPES: Final[dict[KeyScope, str]] = {
    "read": "look at everything",
    "search": "search, chat",
    "write": "create, upload, retry, delete",
    "admin": "all of these; keys, providers, budget, webhooks",
}
LIFETIMES: Final = [("", "does not expire"), ("30", "30 days"), ("90", "90 days"), ("365", "a year")]
_LOOKED_THROUGH: Final = 100

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SETTINGS}/{KEYS}")


@dataclass(frozen=True, slots=True)
class ApiKeyForm:
    name: str = ""
    days: str = ""
    scopes: tuple[str, ...] = ("read", "search")
    kb_ids: tuple[str, ...] = ()
    idempotency_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """Key with which a form that is sent twice creates one API key."""

    @classmethod
    def from_form(cls, form: FormData) -> "ApiKeyForm":
        """Return what was typed."""
        typed = {name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__}
        several = {name: tuple(map(str, form.getlist(name))) for name in ("scopes", "kb_ids")}
        return cls(**cast("dict[str, Any]", {**typed, **several}))

    def creation(self) -> dict[str, Any]:
        """Return the arguments of the call that creates the key."""
        expires_at = datetime.now(UTC) + timedelta(days=int(self.days)) if self.days.isdigit() else None
        return {
            "name": self.name.strip(),
            "scopes": list(self.scopes),
            "expires_at": expires_at,
            "kb_ids": list(self.kb_ids) or None,
        }


@router.get("")
async def list_keys(
    request: Request, visit: Visitor, paging: Paging, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    return refuse_without_admin(request, visit, to="see API keys", tab=TAB) or await _render(
        request, visit, paging, done=done
    )


@router.post("")
async def create(request: Request, visit: Visitor) -> Response:
    form = ApiKeyForm.from_form(await request.form())
    try:
        client = visit.api.with_options(idempotency_key=form.idempotency_key)
        created = await client.api_keys.create(**form.creation())
    except ApiError as error:
        return await _render(request, visit, ListPage(1), form=form, problem=describe_refusal(error))
    return render_page(
        request,
        "secret_once.html",
        tab=TAB,
        what=f"API key {created.name}",
        secret=created.api_key,
        about="With it, its owner calls the API and signs in here. It can be revoked at any time.",
        address_of_list=visit.address(SETTINGS, KEYS),
    )


@router.get("/{key_id}/revoke")
async def confirm_revocation(request: Request, visit: Visitor, key_id: str) -> HTMLResponse:
    keys = await visit.api.api_keys.list(limit=_LOOKED_THROUGH)
    known: ApiKeyView | None = next((key for key in keys.api_keys if key.key_id == key_id), None)
    return render_page(request, "revoke_key.html", key_id=key_id, known=known, is_own=_is_own(visit, key_id))


@router.post("/{key_id}/revoke")
async def revoke(visit: Visitor, key_id: str) -> Response:
    await visit.api.api_keys.revoke(key_id)
    return RedirectResponse(visit.address(SETTINGS, KEYS, done="revoked"), 303)


def _is_own(visit: Visit, key_id: str) -> bool:
    """Say whether the session is one with this key."""
    return visit.session.api_key.startswith(f"kb_{key_id}_")


async def _render(
    request: Request,
    visit: Visit,
    paging: ListPage,
    *,
    form: ApiKeyForm | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    found, kbs = await run_two_or_cancel(
        visit.api.api_keys.list(skip=paging.skip, limit=ROWS), list_knowledge_base_names(visit.api)
    )
    return render_page(
        request,
        "api_keys.html",
        status_code=200 if problem is None else problem.status,
        found=found,
        kbs=kbs,
        names=dict(kbs),
        paging=paging,
        form=form or ApiKeyForm(),
        problem=problem,
        done=done,
        scopes=SCOPES,
        lifetimes=LIFETIMES,
        is_own=lambda key_id: _is_own(visit, key_id),
        now=datetime.now(UTC),
        address_of_page=lambda page: visit.address(SETTINGS, KEYS, page=page),
    )
