"""Finding the text that a provider refuses among those it was asked for together, and serving all others."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kb_shared.errors import BatchRefused

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Sorted(Generic[K, V]):
    """Each text of the batch is in one of both."""

    answered: dict[K, V] = field(default_factory=dict)
    refused: dict[K, BatchRefused] = field(default_factory=dict)


def halves(batch: Mapping[K, str]) -> tuple[dict[K, str], dict[K, str]]:
    """Split two or more texts into as many on the one side as on the other, or one less."""
    texts = list(batch.items())
    middle = len(texts) // 2
    return dict(texts[:middle]), dict(texts[middle:])


async def ask_in_parts(
    batch: Mapping[K, str], ask: Callable[[Mapping[K, str]], Awaitable[Mapping[K, V]]]
) -> Sorted[K, V]:
    """Ask for all, and wherever that is refused for both halves, down to the texts that are refused alone.

    Whatever else `ask` raises ends it; what was answered before is the business of `ask`. With k texts refused of n
    there are at most 1 + 2k * ceil(log2 n) calls.
    """
    found: Sorted[K, V] = Sorted()
    waiting = [dict(batch)] if batch else []
    while waiting:
        part = waiting.pop()
        try:
            found.answered |= await ask(part)
        except BatchRefused as error:
            if len(part) == 1:
                found.refused |= dict.fromkeys(part, error)
            else:
                waiting += reversed(halves(part))
    return found
