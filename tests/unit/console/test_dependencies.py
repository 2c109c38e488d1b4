"""What the routes of the console depend on."""

from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from kb_console.bootstrap import ROUTERS


def _calls(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    if dependant.call is not None:
        yield dependant.call
    for dependency in dependant.dependencies:
        yield from _calls(dependency)


def test_no_page_waits_for_a_thread() -> None:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    assert len(routes) > 100
    in_threads = {
        call.__qualname__ for route in routes for call in _calls(route.dependant) if not iscoroutinefunction(call)
    }
    assert in_threads == set(), "FastAPI calls functions that are no coroutine functions in a thread"
