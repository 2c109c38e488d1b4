"""Finds the text that a provider refuses in a batch, and gets the vectors of all others."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kb_shared.errors import BatchRefused

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class SplitAnswers(Generic[K, V]):
    """Outcome of a batch: each text is in one of the two."""

    answered: dict[K, V] = field(default_factory=dict)
    refused: dict[K, BatchRefused] = field(default_factory=dict)


def halves(batch: Mapping[K, str]) -> tuple[dict[K, str], dict[K, str]]:
    """Split two or more texts into as many on the one side as on the other, or one less."""
    texts = list(batch.items())
    middle = len(texts) // 2
    return dict(texts[:middle]), dict(texts[middle:])


async def ask_in_parts(
    batch: Mapping[K, str], ask: Callable[[Mapping[K, str]], Awaitable[Mapping[K, V]]]
) -> SplitAnswers[K, V]:
    """Ask for the whole batch; where a part is refused, ask for each half of it, down to single texts.

    Any other error of `ask` is raised; `ask` itself keeps the answers that came before it. If k texts of n are refused,
    there are at most 1 + 2k * ceil(log2 n) calls.
    """
    found: SplitAnswers[K, V] = SplitAnswers()
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
