"""Renders pages and parts of pages from the templates."""

import json
from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from kb_console import figures, status_words
from kb_console.addresses import page_address
from kb_console.field_words import field_words
from kb_console.header_count import find_header_count
from kb_console.navigation import NAVIGATION, PRODUCT_NAME
from kb_console.passage_markup import render_passage
from kb_console.sessions import ConsoleSession
from kb_console.static_files import static_address
from kb_console.text_pieces import mark_words
from kb_contracts.api.chat_models import DEMO_MODEL


@pass_context
def _address(context: Context, *segments: str, **query: object) -> str:
    return page_address(context["session"].organization_id, *segments, **query)


def _pretty_json(value: object) -> str:
    """Return JSON as text, which the template escapes like any other."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _create_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kb_console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # All of them stay compiled.
        cache_size=-1,
    )
    environment.filters.update(
        number=figures.number,
        usd=figures.usd,
        percent=figures.percent,
        duration=figures.duration,
        size=figures.size,
        distance=figures.distance,
        utc=figures.utc,
        exact_utc=figures.exact_utc,
        pretty_json=_pretty_json,
        tojson_text=_json_text,
    )
    environment.tests["unfinished"] = status_words.is_unfinished
    environment.globals.update(
        address=_address,
        static=static_address,
        product_name=PRODUCT_NAME,
        navigation=NAVIGATION,
        status_of=status_words.status_of,
        status_words=status_words.words_of_status,
        status_of_document=status_words.status_of_document,
        is_unfinished=status_words.is_unfinished,
        mark_words=mark_words,
        render_passage=render_passage,
        field_words=field_words,
        language_of=status_words.language_of,
        job_words=status_words.OF_JOB,
        cancellable_jobs=status_words.CANCELLABLE_JOBS,
        demo_model=DEMO_MODEL,
    )
    return environment


_ENVIRONMENT: Final = _create_environment()


def is_partial(request: Request) -> bool:
    """Say whether a script of the console asks for a part of a page."""
    return request.headers.get("hx-request-type") == "partial"


def find_session(request: Request) -> ConsoleSession | None:
    """Return the session of a request that was let in."""
    session: ConsoleSession | None = request.scope["state"].get("session")
    return session


class RenderedPage(HTMLResponse):
    """A page that is rendered when it is sent, because the number in its header may arrive last."""

    def __init__(self, request: Request, template: str, values: Mapping[str, Any], *, status_code: int) -> None:
        super().__init__(status_code=status_code)
        self._request = request
        self._template = template
        self._values = values

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        attention = await find_header_count(self._request).wait()
        markup = render_part(self._request, self._template, attention=attention, **self._values)
        self.body = markup.encode(self.charset)
        self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def render_page(
    request: Request, template: str, *, part: str | None = None, status_code: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page, or `part` of it if the request is for a part.

    Args:
        request: the request.
        template: file name of the page.
        part: file name of the part that the page includes, which changes while somebody looks at it.
        status_code: HTTP status.
        values: names that the templates use.
    """
    name = part if part is not None and is_partial(request) else template
    return RenderedPage(request, name, values, status_code=status_code)


def render_part(request: Request, template: str, **values: Any) -> str:
    """Return the markup of a template."""
    context = {
        "nonce": request.scope["state"]["nonce"],
        "session": find_session(request),
        "is_partial": is_partial(request),
        "attention": None,
        **values,
    }
    # An `import` of the macros in each part would run their file each time.
    context["ui"] = _ENVIRONMENT.get_template("_macros.html").make_module(context)
    return _ENVIRONMENT.get_template(template).render(context)
