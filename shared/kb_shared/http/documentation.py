"""Serves the description of the whole HTTP API: the OpenAPI document and Swagger UI, without a key.

Every service serves the same document, that of all services, which is generated in advance (ADR 40). So it does not
matter which one a proxy asks.
"""

from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_UI: Final = files("kb_shared.http").joinpath("swagger_ui")
_FILES: Final = {
    "initializer.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
}
_HEADERS: Final = {"Cache-Control": "public, max-age=300"}
# Swagger UI draws its icons from `data:` and sets styles of elements; requests go to this host only.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def documentation_routes() -> list[Route]:
    return [
        Route("/openapi.json", _send_document),
        Route("/docs", _send_page),
        *(Route(f"/docs/{name}", _send_file) for name in _FILES),
    ]


async def _send_document(_: Request) -> Response:
    document = files("kb_contracts").joinpath("openapi.json").read_bytes()
    return Response(document, media_type="application/json", headers=_HEADERS)


async def _send_page(_: Request) -> Response:
    page = _UI.joinpath("index.html").read_bytes()
    return Response(page, media_type="text/html", headers=_HEADERS | {"Content-Security-Policy": _POLICY})


async def _send_file(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    return Response(_UI.joinpath(name).read_bytes(), media_type=_FILES[name], headers=_HEADERS)
