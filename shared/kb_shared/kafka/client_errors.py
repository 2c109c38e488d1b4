"""Turns what the client library raises into KafkaError: a rebalance can break any of its calls."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from aiokafka.errors import KafkaError

ANSWER_WITHIN_S: Final = 5.0


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise KafkaError whatever the client library raises inside the block.

    It checks its own state with `assert`, and its decoding may fail in any way. None of that is a reason to end the
    process: the membership is given up and a new one begins.
    """
    try:
        yield
    except (KafkaError, TimeoutError):
        raise
    except Exception as error:
        raise KafkaError(f"the client library failed with {type(error).__name__}") from error


@asynccontextmanager
async def answer_in_time() -> AsyncIterator[None]:
    """As `client_errors`, for questions to the broker: TimeoutError if the answers take longer than 5 s."""
    async with asyncio.timeout(ANSWER_WITHIN_S):
        with client_errors():
            yield
