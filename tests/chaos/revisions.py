"""One document that changes again and again, in every way a text changes."""

import random
from collections.abc import Callable, Sequence
from itertools import count

from tests.chaos.workload import paragraph


class Revisions:
    """Texts as lists of paragraphs. Each step changes the last text in the next of six ways."""

    def __init__(self, name: str, *, seed: int = 0) -> None:
        self._name = name
        self._dice = random.Random(f"{seed}/{name}")
        self._serial = count()
        self._published = [self._new(12)]

    @property
    def published(self) -> Sequence[Sequence[str]]:
        """All texts so far, the first one first."""
        return self._published

    @property
    def newest(self) -> Sequence[str]:
        return self._published[-1]

    def step(self) -> Sequence[str]:
        """The next text, which counts as published from now on."""
        ways: tuple[Callable[[list[str]], list[str]], ...] = (
            lambda text: [*self._new(1), *text],
            self._without_one,
            self._with_one_changed,
            lambda _: self._new(self._dice.randrange(6, 14)),
            lambda text: text[::-1],
            lambda text: text,
        )
        way = ways[(len(self._published) - 1) % len(ways)]
        self._published.append(way(list(self.newest)))
        return self.newest

    def recent_paragraph(self) -> str:
        """A paragraph of the newest text or of the one before."""
        return self._dice.choice(self._dice.choice(self._published[-2:]))

    def _new(self, number: int) -> list[str]:
        return [paragraph(f"{self._name} {next(self._serial)}") for _ in range(number)]

    def _without_one(self, text: list[str]) -> list[str]:
        text.pop(self._dice.randrange(len(text)))
        return text

    def _with_one_changed(self, text: list[str]) -> list[str]:
        text[self._dice.randrange(len(text))] = self._new(1)[0]
        return text
