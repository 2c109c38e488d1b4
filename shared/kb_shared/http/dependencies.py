"""Provides dependencies to routes: an application has one value of each type, and a handler names the types it uses.

provide(app, database)
Database = Annotated[mongo.Database, Depends(provided(mongo.Database))]

@router.get("/things")
async def list_things(database: Database) -> ThingList: ...
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, get_origin

from starlette.applications import Starlette
from starlette.requests import Request

T = TypeVar("T")


def provide(app: Starlette, *values: object) -> None:
    """Give the routes of `app` these values, each by its type."""
    if not hasattr(app.state, "provided"):
        app.state.provided = {}
    app.state.provided.update({type(value): value for value in values})


def get_provided(app: Starlette, kind: type[T]) -> T:
    """Return the value of type `kind` that the application was given."""
    value: T = app.state.provided[_class_of(kind)]
    return value


def provided(kind: type[T]) -> Callable[[Request], Awaitable[T]]:
    """Return the FastAPI dependency for the value of type `kind`."""
    key = _class_of(kind)

    # A coroutine function: FastAPI calls others in a thread.
    async def find(request: Request) -> T:
        value: T = request.app.state.provided[key]
        return value

    return find


def _class_of(kind: type[Any]) -> type[Any]:
    return get_origin(kind) or kind
