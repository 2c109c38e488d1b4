"""The HTTP application of a service: strict requests, problems, keys, health."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any

import structlog
from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.errors import Misconfigured
from kb_shared.http import openapi, problems
from kb_shared.http.admission import Admission
from kb_shared.http.authentication import Authentication
from kb_shared.http.cursors import Cursors
from kb_shared.http.dependencies import get_provided, provide
from kb_shared.http.documentation import documentation_routes
from kb_shared.http.failed_authentications import FailedAuthentications
from kb_shared.http.health import Ready, health_routes, mongodb_answers
from kb_shared.http.large_bodies import LargeBodies
from kb_shared.http.loopback import is_loopback
from kb_shared.http.request_context import RequestContext
from kb_shared.mongo.database import Database
from kb_shared.settings import HttpSettings

_log = structlog.get_logger()

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(
    title: str,
    settings: HttpSettings,
    *,
    database: Database,
    routers: Sequence[APIRouter],
    endpoints: Sequence[BaseRoute] = (),
    ready: Ready | None = None,
    lifespan: Lifespan | None = None,
    fair_queue: FairQueue | None = None,
) -> FastAPI:
    """Create the application of a service from its routes.

    Args:
        title: title of the OpenAPI document.
        database: database with the API keys.
        routers: routers created by `organization_router`.
        endpoints: routes of other protocols; they call `authenticate_caller`.
        ready: check of `/readyz`; by default the database has to answer.
        lifespan: FastAPI's.
        fair_queue: queue of the requests, if the caller needs it, too.
    """

    @asynccontextmanager
    async def closing_key_use(app: FastAPI) -> AsyncIterator[None]:
        async with lifespan(app) if lifespan is not None else nullcontext():
            yield
        await get_provided(app, Authentication).key_use.close()

    app = FastAPI(
        title=title,
        version=version("kb-shared"),
        lifespan=closing_key_use,
        middleware=[Middleware(RequestContext, body_timeout_s=settings.http_body_timeout_s)],
        # The document of all services is served instead; FastAPI's pages load scripts from other hosts.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _check_pepper(settings)
    authentication = Authentication(
        database,
        peppers=settings.peppers,
        failures=FailedAuthentications(
            per_minute_of_address=settings.failed_authentications_per_minute_of_address,
            per_minute_of_key=settings.failed_authentications_per_minute_of_key,
        ),
    )
    fair_queue = fair_queue or FairQueue(max_active=settings.http_max_active_of_organization)
    provide(
        app,
        database,
        authentication,
        Admission(settings),
        fair_queue,
        LargeBodies(fair_queue),
        Cursors(settings.peppers),
    )
    problems.install(app)
    app.router.routes.extend(health_routes(ready or mongodb_answers(database)))
    app.router.routes.extend(documentation_routes())
    app.router.routes.extend(endpoints)
    for router in routers:
        # `include_router` would make each route a second time, at the first request.
        app.router.routes.extend(router.routes)
    _complete_document(app, routers)
    return app


def _check_pepper(settings: HttpSettings) -> None:
    default = HttpSettings.model_fields["api_key_pepper"].default
    # Both are settings of this process, so that no caller can measure the time.
    if settings.api_key_pepper != default:  # nosemgrep: secret-compared-with-equals
        return
    remedy = "set KB_API_KEY_PEPPER, to the same secret in all services"
    if not is_loopback(settings.http_host):
        raise Misconfigured(
            f"the pepper of API keys is the public default, and KB_HTTP_HOST={settings.http_host} can be reached from"
            f" other machines: {remedy}"
        )
    _log.warning("api_key.pepper_is_known", remedy=remedy)


def _complete_document(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    generate = app.openapi

    def build_document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = openapi.complete(generate(), routers)
        return app.openapi_schema

    app.openapi = build_document  # type: ignore[method-assign]  # the way FastAPI documents for changing its document
