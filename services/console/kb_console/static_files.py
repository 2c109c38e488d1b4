"""Files for browsers, each at an address with the hash of its content, so that they can be cached for ever."""

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kb_console.browser_rules import STATIC

_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEADERS: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_FOLDER: Final = files("kb_console").joinpath("static")
_NAMES: Final = (
    "console.css",
    "console.js",
    "icon.svg",
    "uploads.js",
    "vendor/htmx.min.js",
    "vendor/hx-csp.min.js",
    "vendor/hx-sse.min.js",
    "vendor/pico.min.css",
    "vendor/uPlot.iife.min.js",
    "vendor/uPlot.min.css",
)


def static_address(name: str) -> str:
    """Return the address of a file, such as `/console/static/5d41402abc4b2a76/console.css`."""
    return f"{STATIC}{_digest(name)}/{name}"


def static_route() -> Route:
    return Route(STATIC + "{digest}/{name:path}", _send)


async def _send(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _NAMES or request.path_params["digest"] != _digest(name):
        return PlainTextResponse("There is no such file.", 404)
    return Response(_content(name), media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)


@cache
def _content(name: str) -> bytes:
    file: Traversable = _FOLDER
    for part in name.split("/"):
        file = file.joinpath(part)
    return file.read_bytes()


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(_content(name)).hexdigest()[:16]
