"""Webhooks: addresses that get events, with the state of each delivery."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client import AsyncClient
from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.administration.organization_settings import SETTINGS, list_knowledge_base_names, refuse_without_admin
from kb_console.administration.webhook_form import EVENT_TYPES, WebhookForm
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_console.paging import ROWS, ListPage, Paging
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.webhooks import WantedDeliveryState, WebhookDeliveryView, WebhookTestResult
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel, run_three_or_cancel, run_two_or_cancel

WEBHOOKS: Final = "webhooks"
TAB: Final = "Webhooks"
_FAILURES: Final = 100
_STATES: Final = [("", "any"), ("waiting", "waiting"), ("delivered", "delivered"), ("dead", "given up")]

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SETTINGS}/{WEBHOOKS}")


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """State of the deliveries of a webhook."""

    last: WebhookDeliveryView | None
    dead: int
    """Number of deliveries that were given up, of the last hundred."""


@router.get("")
async def list_webhooks(
    request: Request, visit: Visitor, paging: Paging, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    refused = refuse_without_admin(request, visit, to="see webhooks", tab=TAB)
    return refused or await _render_list(request, visit, paging, done=done)


@router.post("")
async def create(request: Request, visit: Visitor) -> Response:
    form = WebhookForm.from_form(await request.form())
    try:
        client = visit.api.with_options(idempotency_key=form.idempotency_key)
        created = await client.webhooks.create(**form.settings())
    except ApiError as error:
        return await _render_list(request, visit, ListPage(1), form=form, problem=describe_refusal(error))
    return _show_secret(request, visit, secret=created.secret, webhook_id=created.webhook_id)


@router.get("/{webhook_id}")
async def show(
    request: Request,
    visit: Visitor,
    webhook_id: str,
    *,
    state: WantedDeliveryState | Literal[""] = "",
    cursor: Annotated[str, Query(max_length=1_000)] = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    return await _render(request, visit, webhook_id, state=state or None, cursor=cursor, done=done)


@router.post("/{webhook_id}")
async def change(request: Request, visit: Visitor, webhook_id: str) -> Response:
    form = WebhookForm.from_form(await request.form())
    try:
        await visit.api.webhooks.update(webhook_id, **form.settings())
    except ApiError as error:
        return await _render(request, visit, webhook_id, form=form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(SETTINGS, WEBHOOKS, webhook_id, done="changed"), 303)


@router.post("/{webhook_id}/pause")
async def pause(visit: Visitor, webhook_id: str) -> Response:
    await visit.api.webhooks.update(webhook_id, enabled=False)
    return RedirectResponse(visit.address(SETTINGS, WEBHOOKS, webhook_id, done="paused"), 303)


@router.post("/{webhook_id}/resume")
async def resume(visit: Visitor, webhook_id: str) -> Response:
    await visit.api.webhooks.update(webhook_id, enabled=True)
    return RedirectResponse(visit.address(SETTINGS, WEBHOOKS, webhook_id, done="resumed"), 303)


@router.post("/{webhook_id}/test")
async def test(request: Request, visit: Visitor, webhook_id: str) -> HTMLResponse:
    tested = await visit.api.webhooks.test(webhook_id)
    return await _render(request, visit, webhook_id, tested=tested)


@router.post("/{webhook_id}/rotate-secret")
async def rotate_secret(request: Request, visit: Visitor, webhook_id: str) -> HTMLResponse:
    rotated = await visit.api.webhooks.rotate_secret(webhook_id)
    return _show_secret(request, visit, secret=rotated.secret, webhook_id=webhook_id)


@router.post("/{webhook_id}/deliveries/{delivery_id}/redeliver")
async def redeliver(visit: Visitor, webhook_id: str, delivery_id: str) -> Response:
    await visit.api.webhooks.redeliver(webhook_id, delivery_id=delivery_id)
    return RedirectResponse(visit.address(SETTINGS, WEBHOOKS, webhook_id, done="redelivered"), 303)


@router.get("/{webhook_id}/delete")
async def confirm_deletion(request: Request, visit: Visitor, webhook_id: str) -> HTMLResponse:
    webhook, waiting = await run_two_or_cancel(
        visit.api.webhooks.get(webhook_id),
        visit.api.webhooks.list_deliveries(webhook_id, state="waiting", limit=_FAILURES),
    )
    return render_page(request, "delete_webhook.html", webhook=webhook, waiting=waiting)


@router.post("/{webhook_id}/delete")
async def delete(visit: Visitor, webhook_id: str) -> Response:
    await visit.api.webhooks.delete(webhook_id)
    return RedirectResponse(visit.address(SETTINGS, WEBHOOKS, done="deleted"), 303)


def _show_secret(request: Request, visit: Visit, *, secret: str, webhook_id: str) -> HTMLResponse:
    return render_page(
        request,
        "secret_once.html",
        tab=TAB,
        what="Secret of the webhook",
        secret=secret,
        about="The receiver checks with it that a request is from here. A former secret stays valid for a day.",
        address_of_list=visit.address(SETTINGS, WEBHOOKS, webhook_id),
    )


async def _summarize(api: AsyncClient, webhook_ids: Sequence[str]) -> dict[str, DeliverySummary]:
    """Return how the deliveries of each webhook go."""

    async def summarize(webhook_id: str) -> DeliverySummary:
        last, dead = await run_two_or_cancel(
            api.webhooks.list_deliveries(webhook_id, limit=1),
            api.webhooks.list_deliveries(webhook_id, state="dead", limit=_FAILURES),
        )
        return DeliverySummary(next(iter(last.deliveries), None), len(dead.deliveries))

    summaries = await run_all_or_cancel([summarize(webhook_id) for webhook_id in webhook_ids])
    return dict(zip(webhook_ids, summaries, strict=True))


async def _render_list(
    request: Request,
    visit: Visit,
    paging: ListPage,
    *,
    form: WebhookForm | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    found, kbs = await run_two_or_cancel(
        visit.api.webhooks.list(skip=paging.skip, limit=ROWS), list_knowledge_base_names(visit.api)
    )
    return render_page(
        request,
        "webhooks.html",
        status_code=200 if problem is None else problem.status,
        found=found,
        summaries=await _summarize(visit.api, [each.webhook_id for each in found.webhooks]),
        paging=paging,
        form=form or WebhookForm(),
        kbs=kbs,
        event_types=EVENT_TYPES,
        problem=problem,
        done=done,
        address_of_page=lambda page: visit.address(SETTINGS, WEBHOOKS, page=page),
    )


async def _render(
    request: Request,
    visit: Visit,
    webhook_id: str,
    *,
    state: WantedDeliveryState | None = None,
    cursor: str = "",
    form: WebhookForm | None = None,
    problem: ShownProblem | None = None,
    tested: WebhookTestResult | None = None,
    done: str = "",
) -> HTMLResponse:
    webhook, deliveries, kbs = await run_three_or_cancel(
        visit.api.webhooks.get(webhook_id),
        visit.api.webhooks.list_deliveries(webhook_id, state=state, cursor=cursor or None, limit=ROWS),
        list_knowledge_base_names(visit.api),
    )

    def address_of(cursor: str | None = None) -> str:
        return visit.address(SETTINGS, WEBHOOKS, webhook_id, state=state, cursor=cursor)

    return render_page(
        request,
        "webhook.html",
        part="_deliveries.html",
        status_code=200 if problem is None else problem.status,
        webhook=webhook,
        deliveries=deliveries,
        state=state or "",
        states=_STATES,
        form=form or WebhookForm.from_webhook(webhook),
        kbs=kbs,
        event_types=EVENT_TYPES,
        problem=problem,
        tested=tested,
        done=done,
        is_later_page=bool(cursor),
        address_of=address_of,
        address_here=address_of(cursor or None),
        changes_by_itself=webhook.enabled and any(each.state == "waiting" for each in deliveries.deliveries),
    )
