"""Providers of models with a key of the organization: set, test, pause, resume, delete."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import FormData

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.administration.organization_settings import SETTINGS, refuse_without_admin
from kb_console.administration.provider_uses import ProviderUses, read_uses
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_refusal
from kb_console.typed_numbers import TypedNumbers
from kb_contracts.api.llm_providers import LlmProviderView, ProviderCheckView
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

PROVIDERS: Final = "providers"
TAB: Final = "Providers"
_CHOICES: Final = 100
_SERVERS: Final = frozenset({"ollama", "openai-compatible", "vllm"})
"""Providers whose models are in no list: a server of one's own has any."""

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SETTINGS}/{PROVIDERS}")


@dataclass(frozen=True, slots=True)
class ProviderForm:
    provider: str = ""
    api_base: str = ""
    requests_per_minute: str = ""
    """Empty: no limit, as below."""
    tokens_per_minute: str = ""

    @classmethod
    def from_form(cls, form: FormData) -> "ProviderForm":
        """Return what was typed, without the key, which no page shows again."""
        return cls(**{name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__})

    @classmethod
    def from_provider(cls, provider: LlmProviderView) -> "ProviderForm":
        """Return the form with the present settings."""
        limits = (provider.requests_per_minute, provider.tokens_per_minute)
        return cls(
            provider.provider, provider.api_base or "", *("" if limit is None else str(limit) for limit in limits)
        )

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the call that stores the settings, without the key.

        Raises:
            UnusableForm: a limit is no number.
        """
        numbers = TypedNumbers()
        limits = {
            name: numbers.read(name, getattr(self, name), int) for name in ("requests_per_minute", "tokens_per_minute")
        }
        numbers.check()
        return {"api_base": self.api_base.strip() or None, **limits}


@router.get("")
async def list_providers(
    request: Request, visit: Visitor, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    refused = refuse_without_admin(request, visit, to="see providers", tab=TAB)
    return refused or await _render(request, visit, done=done)


@router.post("")
async def put(request: Request, visit: Visitor) -> Response:
    sent = await request.form()
    form, api_key = ProviderForm.from_form(sent), sent.get("api_key")
    try:
        await visit.api.llm_providers.put(
            form.provider.strip(), api_key=api_key if isinstance(api_key, str) and api_key else None, **form.settings()
        )
    except (UnusableForm, ApiError) as error:
        return await _render(request, visit, form=form, problem=describe_refusal(error))
    return RedirectResponse(visit.address(SETTINGS, PROVIDERS, done="stored"), 303)


@router.post("/{provider}/test")
async def test(request: Request, visit: Visitor, provider: str) -> HTMLResponse:
    checked = await visit.api.llm_providers.test(provider)
    return await _render(request, visit, checked=checked)


@router.post("/{provider}/pause")
async def pause(visit: Visitor, provider: str) -> Response:
    await visit.api.llm_providers.pause(provider)
    return RedirectResponse(visit.address(SETTINGS, PROVIDERS, done="paused"), 303)


@router.post("/{provider}/resume")
async def resume(visit: Visitor, provider: str) -> Response:
    await visit.api.llm_providers.resume(provider)
    return RedirectResponse(visit.address(SETTINGS, PROVIDERS, done="resumed"), 303)


@router.get("/{provider}/edit")
async def edit(request: Request, visit: Visitor, provider: str) -> HTMLResponse:
    present = await visit.api.llm_providers.get(provider)
    return await _render(request, visit, form=ProviderForm.from_provider(present))


@router.get("/{provider}/delete")
async def confirm_deletion(request: Request, visit: Visitor, provider: str) -> HTMLResponse:
    present, (uses, _) = await run_two_or_cancel(visit.api.llm_providers.get(provider), read_uses(visit.api))
    concerned = uses.get(provider, ProviderUses())
    return render_page(request, "delete_provider.html", provider=present, concerned=concerned)


@router.post("/{provider}/delete")
async def delete(visit: Visitor, provider: str) -> Response:
    await visit.api.llm_providers.delete(provider)
    return RedirectResponse(visit.address(SETTINGS, PROVIDERS, done="deleted"), 303)


async def _render(
    request: Request,
    visit: Visit,
    *,
    form: ProviderForm | None = None,
    problem: ShownProblem | None = None,
    checked: ProviderCheckView | None = None,
    done: str = "",
) -> HTMLResponse:
    found, (uses, models) = await run_two_or_cancel(visit.api.llm_providers.list(limit=_CHOICES), read_uses(visit.api))
    known: Sequence[str] = sorted({model.provider for model in models} | _SERVERS)
    return render_page(
        request,
        "providers.html",
        status_code=200 if problem is None else problem.status,
        providers=found.llm_providers,
        uses=uses,
        known=known,
        form=form or ProviderForm(),
        problem=problem,
        checked=checked,
        done=done,
    )
