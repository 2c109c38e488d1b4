"""Sign-in with an API key, sign-out, and codes that sign in once. No other part depends on how somebody signed in."""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from kb_client.errors import ApiError, KbClientError, UnusableConfiguration
from kb_console.addresses import LIST, ROOT, SIGN_IN, own_address, page_address
from kb_console.browser_rules import CODES
from kb_console.dependencies import ApiClients, FailedAuthentications, OpenedApi, Sessions
from kb_console.errors import SignedOut
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_problem
from kb_console.sessions import CODE_LIFETIME_S, ConsoleSession
from kb_contracts.api.whoami import WhoAmI
from kb_shared.errors import RequestError
from kb_shared.http import failed_authentications
from kb_shared.http.problems import problem

_NO_ORGANIZATION = "-"
"""Placeholder: the API says which organization a key is of."""
_INVALID_KEY = RequestError(
    401, "unauthenticated", "The API key is not valid. It may have been revoked or have expired."
)
_USED_CODE = ShownProblem(
    401, "Sign-in link not valid", "The link was used already, or is older than a minute. Run `kb open` again."
)

router = APIRouter()


@router.get(f"{ROOT}/")
async def first_page(request: Request, sessions: Sessions) -> Response:
    session = sessions.find(request)
    if session is None:
        raise SignedOut
    return RedirectResponse(page_address(session.organization_id, LIST), 303)


@router.get(SIGN_IN)
async def show_sign_in(
    request: Request, *, then: Annotated[str | None, Query()] = None, ended: bool = False
) -> HTMLResponse:
    return _form(request, then=then, has_ended=ended)


@router.post(SIGN_IN)
async def sign_in(
    request: Request,
    api: OpenedApi,
    sessions: Sessions,
    failures: FailedAuthentications,
    *,
    api_key: Annotated[str, Form(max_length=1_000)] = "",
    then: Annotated[str | None, Form(max_length=8_000)] = None,
) -> Response:
    key = api_key.strip()
    try:
        who = await _identify(api, key, failures, address=client_address(request))
    except RequestError as refusal:
        retry_after_s = refusal.retry_after_s
        shown = ShownProblem(refusal.status, "Not signed in", refusal.detail, retry_after_s=retry_after_s)
        return _form(request, then=then, shown=shown)
    except KbClientError as error:
        return _form(request, then=then, shown=describe_problem(error))
    response = RedirectResponse(own_address(then), 303)
    sessions.begin(request, response, ConsoleSession.from_key(who, api_key=key))
    return response


@router.post(f"{ROOT}/sign-out")
async def sign_out(sessions: Sessions) -> Response:
    response = RedirectResponse(SIGN_IN, 303)
    sessions.end(response)
    return response


@router.post(CODES)
async def make_code(request: Request, api: OpenedApi, sessions: Sessions, failures: FailedAuthentications) -> Response:
    """Return a path that signs a browser in, once and within a minute. `kb open` calls it with the key of a profile."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise failures.count_failure(_INVALID_KEY, address=client_address(request), key_id=None)
        who = await _identify(api, key, failures, address=client_address(request))
    except RequestError as refusal:
        return problem(
            request, refusal.status, refusal.slug, detail=refusal.detail, retry_after_s=refusal.retry_after_s
        )
    except KbClientError as error:
        return problem(request, 503, "unavailable", detail=describe_problem(error).detail)
    code = sessions.make_code(ConsoleSession.from_key(who, api_key=key))
    return JSONResponse({"path": f"{SIGN_IN}/with-code?code={code}", "lifetime_s": CODE_LIFETIME_S})


@router.get(f"{SIGN_IN}/with-code")
async def use_code(request: Request, sessions: Sessions, code: Annotated[str, Query(max_length=4_000)]) -> Response:
    # A page of another site must not sign its visitors in, as somebody whose documents they would then upload to.
    comes_from_elsewhere = request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
    session = None if comes_from_elsewhere else sessions.use_code(code)
    if session is None:
        return _form(request, then=None, shown=_USED_CODE)
    response = RedirectResponse(f"{ROOT}/", 303)
    sessions.begin(request, response, session)
    return response


async def _identify(
    api: ApiClients, key: str, failures: failed_authentications.FailedAuthentications, *, address: str
) -> WhoAmI:
    """Ask the API who a key is of.

    Raises:
        RequestError: the key is not valid, or there were too many such keys from this address.
        KbClientError: the API did not answer.
    """
    try:
        return await api.open(organization_id=_NO_ORGANIZATION, api_key=key).whoami.get()
    except (ApiError, UnusableConfiguration) as error:
        if isinstance(error, ApiError) and error.status != 401:
            raise
        raise failures.count_failure(_INVALID_KEY, address=address, key_id=None) from None


def client_address(request: Request) -> str:
    """Return the address of a reader: behind a proxy the one that the proxy has added, the last of the header."""
    forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return forwarded or (request.client.host if request.client is not None else "")


def _form(
    request: Request, *, then: str | None, shown: ShownProblem | None = None, has_ended: bool = False
) -> HTMLResponse:
    status_code = 200 if shown is None else shown.status
    return render_page(request, "sign_in.html", status_code=status_code, then=then, problem=shown, has_ended=has_ended)
