"""Converts errors of the client library to KafkaError: a rebalance can break any of its calls."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from aiokafka.errors import KafkaError

ANSWER_WITHIN_S: Final = 5.0


@contextmanager
def client_errors() -> Iterator[None]:
    """Convert every error that the client library raises inside the block to KafkaError.

    The library checks its own state with `assert`, and its decoding may fail in any way. Such an error ends the
    session with the group, not the process.
    """
    try:
        yield
    except (KafkaError, TimeoutError):
        raise
    except Exception as error:
        raise KafkaError(f"the client library failed with {type(error).__name__}") from error


@asynccontextmanager
async def answer_in_time() -> AsyncIterator[None]:
    """Do the same for requests to the broker, and raise TimeoutError if they take longer than 5 s."""
    async with asyncio.timeout(ANSWER_WITHIN_S):
        with client_errors():
            yield
