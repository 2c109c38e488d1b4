"""Holds the peppers, the secrets in the hashes of API keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Peppers:
    """Current pepper with its predecessors and its successor. A key is valid with each of them."""

    current: str = field(repr=False)
    """Pepper of new hashes."""
    former: tuple[str, ...] = field(default=(), repr=False)
    """Former peppers. A hash with one of them is replaced by one with the current pepper."""
    coming: str | None = field(default=None, repr=False)
    """Next pepper, which replicas with newer settings use already. Hashes with it are kept."""

    def __iter__(self) -> Iterator[str]:
        yield self.current
        yield from self.former
        if self.coming is not None:
            yield self.coming
