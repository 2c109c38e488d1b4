"""Methods of resources that make one request, with their variants.

A method returns its request as a `ApiCall`, and the descriptor sends it. So each method has, with the types of its own
arguments and answer:

    await client.tags.list()                    the answer
    await client.tags.list.with_raw_response()  the answer with its status and headers
    client.tags.list.iterate()                  the items of all pages, for lists
"""

import functools
from collections.abc import AsyncIterator, Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from pydantic import BaseModel

from kb_client.answers import parse_answer
from kb_client.async_client.transport import AsyncTransport
from kb_client.call import ApiCall, PageCall
from kb_client.call_options import CallOptions
from kb_client.raw_response import RawResponse

P = ParamSpec("P")
R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")


class AsyncResource:
    """Operations on one kind of resource.

    Args:
        transport: sends the calls.
        options: options of all calls.
    """

    def __init__(self, transport: AsyncTransport, options: CallOptions) -> None:
        self._transport = transport
        self._options = options

    async def send(self, call: ApiCall[R]) -> RawResponse[R]:
        """Send one call and parse its answer."""
        response = await self._transport.send(cast("ApiCall[BaseModel]", call), self._options)
        return RawResponse(
            response.status_code, response.headers, response.content, parse_answer(response, call.answer)
        )


class AsyncBoundOperation(Generic[P, R]):
    """A method of a resource."""

    def __init__(self, describe: Callable[Concatenate[Any, P], ApiCall[R]], resource: AsyncResource) -> None:
        self._describe: Callable[P, ApiCall[R]] = MethodType(describe, resource)
        self._resource = resource
        # For `help` and `inspect.signature`.
        functools.update_wrapper(self, self._describe)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return (await self.with_raw_response(*args, **kwargs)).parsed

    async def with_raw_response(self, *args: P.args, **kwargs: P.kwargs) -> RawResponse[R]:
        """Return the answer with its status and headers."""
        return await self._resource.send(self.describe(*args, **kwargs))

    def describe(self, *args: P.args, **kwargs: P.kwargs) -> ApiCall[R]:
        """Return the request without sending it."""
        return self._describe(*args, **kwargs)


class AsyncBoundListing(AsyncBoundOperation[P, R], Generic[P, R, T]):
    """A method of a resource that returns one page of a list."""

    async def iterate(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """Yield the items of all pages. `limit` is the size of a page; it makes no difference to what is returned."""
        call: PageCall[R, T] | None = cast("PageCall[R, T]", self.describe(*args, **kwargs)).first()
        while call is not None:
            page = (await self._resource.send(call)).parsed
            for item in call.items(page):
                yield item
            call = call.after(page)


class AsyncOperation(Generic[P, R]):
    """Descriptor of a method that makes one request."""

    def __init__(self, describe: Callable[Concatenate[Any, P], ApiCall[R]]) -> None:
        self.__doc__ = describe.__doc__
        self.describe = describe

    def __get__(self, resource: AsyncResource, owner: type | None = None) -> AsyncBoundOperation[P, R]:
        return AsyncBoundOperation(self.describe, resource)


class AsyncListing(Generic[P, R, T]):
    """Descriptor of a method that returns one page of a list."""

    def __init__(self, describe: Callable[Concatenate[Any, P], PageCall[R, T]]) -> None:
        self.__doc__ = describe.__doc__
        self.describe = describe

    def __get__(self, resource: AsyncResource, owner: type | None = None) -> AsyncBoundListing[P, R, T]:
        return AsyncBoundListing(self.describe, resource)


def operation(describe: Callable[Concatenate[Any, P], ApiCall[R]]) -> AsyncOperation[P, R]:
    """Make a method of a function that describes its request."""
    return AsyncOperation(describe)


def listing(describe: Callable[Concatenate[Any, P], PageCall[R, T]]) -> AsyncListing[P, R, T]:
    """Make a method of a function that describes the request of one page."""
    return AsyncListing(describe)
