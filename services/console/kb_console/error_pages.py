"""Turns every error into a page, or into the part of a page that a script asked for."""

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kb_client.errors import ApiError, KbClientError
from kb_console.addresses import ROOT, sign_in_address
from kb_console.body_limit import BodyTooLarge
from kb_console.errors import NotOfThisOrganization, SignedOut, UnusableForm
from kb_console.figures import size
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_problem, unusable_form
from kb_console.sessions import COOKIE
from kb_shared.http.problems import parameter_reasons
from kb_shared.http.request_context import request_id_of

_NO_PAGE = ShownProblem(404, "Not found", "There is no such page.")
_NO_ORGANIZATION = ShownProblem(
    404,
    "Not found",
    "This page does not exist, or it is of another organization than the key that you signed in with.",
)
_FAILED = "The console failed unexpectedly. Report the request to the operator of this deployment."

_log = structlog.get_logger()


class UnexpectedErrors:
    """Shows a page for an error that nothing else handles, and logs its type."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:
            if has_begun:
                raise
            request = Request(scope)
            if isinstance(error, BodyTooLarge):
                page = await _too_large(request, error)
            else:
                # The edge: the reader gets a page, and the log gets the type of any error.
                _log.exception("page.failed", method=scope["method"])
                page = show(request, ShownProblem(500, "Unexpected error", _FAILED, {}, request_id_of(scope)))
            await page(scope, receive, send)


def install(app: FastAPI) -> None:
    """Show a page for every expected error of `app`."""
    app.add_exception_handler(SignedOut, _lead_to_sign_in)
    app.add_exception_handler(NotOfThisOrganization, _of_another_organization)
    app.add_exception_handler(KbClientError, _refused_by_api)
    app.add_exception_handler(UnusableForm, _unusable_form)
    app.add_exception_handler(BodyTooLarge, _too_large)
    app.add_exception_handler(RequestValidationError, _unusable_address)
    app.add_exception_handler(HTTPException, _routing_error)


def show(request: Request, problem: ShownProblem) -> Response:
    """Return the page of a problem, with its status."""
    return render_page(request, "problem.html", part="_problem.html", status_code=problem.status, problem=problem)


async def _lead_to_sign_in(request: Request, _: Exception) -> Response:
    has_ended = COOKIE in request.cookies
    if request.headers.get("accept") == "application/json":
        detail = "Your session has ended. Sign in again: this page then goes on with this file."
        return JSONResponse({"detail": detail}, 401)
    if "hx-request" in request.headers:
        # The page that asked is shown again after the sign-in, and not the part of it.
        shown = _page_in(request.headers.get("hx-current-url", "")) or f"{ROOT}/"
        return Response(status_code=401, headers={"HX-Redirect": sign_in_address(then=shown, has_ended=has_ended)})
    then: str | None
    if request.method == "GET":
        then = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    else:
        # The page with the form: what it has sent can't be sent again.
        then = _page_in(request.headers.get("referer", ""))
    return RedirectResponse(sign_in_address(then=then, has_ended=has_ended), 303)


def _page_in(address: str) -> str | None:
    """Return the path of a page of the console in an address."""
    at = address.find(f"{ROOT}/")
    return address[at:] if at >= 0 else None


async def _of_another_organization(request: Request, _: Exception) -> Response:
    return show(request, _NO_ORGANIZATION)


async def _refused_by_api(request: Request, error: Exception) -> Response:
    assert isinstance(error, KbClientError)
    if isinstance(error, ApiError) and error.status == 401:
        return await _lead_to_sign_in(request, error)
    return show(request, describe_problem(error))


async def _unusable_form(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnusableForm)
    return show(request, unusable_form(error.fields))


async def _too_large(request: Request, error: Exception) -> Response:
    assert isinstance(error, BodyTooLarge)
    detail = f"Send at most {size(error.max_bytes)}."
    if request.headers.get("accept") == "application/json":
        return JSONResponse({"detail": f"Too large. {detail}"}, 413)
    return show(request, ShownProblem(413, "Too large", detail))


async def _unusable_address(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fields = {each.field: each.message for each in parameter_reasons(request, error)}
    return show(request, ShownProblem(422, "Unusable address", "The address of this page has unusable values.", fields))


async def _routing_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return show(request, _NO_PAGE)
    return show(request, ShownProblem(error.status_code, "Not possible", "This page can't do that."))
