"""Rules for browsers: what they may do with pages, and which requests of theirs may change something."""

import secrets
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC: Final = "/console/static/"
CODES: Final = "/console/sign-in/codes"
"""Path for programs, which send a key and no cookie."""
_READING: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types htmx"
)
_HEADERS: Final = {"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin"}


class BrowserRules:
    """Gives each page a policy with a nonce of its own, and refuses changes that another site's page has sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce

        async def send_with_rules(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if "content-security-policy" not in headers:
                    headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
            await send(message)

        if scope["method"] not in _READING and scope["path"] != CODES and not is_from_here(Headers(scope=scope)):
            refusal = PlainTextResponse("This request was not sent by a page of the console.", 403)
            await refusal(scope, receive, send_with_rules)
            return
        await self._app(scope, receive, send_with_rules)


def is_from_here(headers: Headers) -> bool:
    """Say whether a request was sent by a page of the console. No page can forge these headers."""
    if (site := headers.get("sec-fetch-site")) is not None:
        return site == "same-origin"
    return urlsplit(headers.get("origin", "")).netloc == headers.get("host", "") != ""
