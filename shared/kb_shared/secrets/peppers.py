"""Peppers of API keys: what their stored hashes are made with beside the key itself."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Peppers:
    """The pepper, and those that it replaces or that will replace it: a key is right with any of them."""

    current: str = field(repr=False)
    """Hashes are made with this one."""
    former: tuple[str, ...] = field(default=(), repr=False)
    """A hash that was made with one of these is made again with the current one."""
    coming: str | None = field(default=None, repr=False)
    """A hash of this one stays: replicas that were configured later have made it."""

    def __iter__(self) -> Iterator[str]:
        yield self.current
        yield from self.former
        if self.coming is not None:
            yield self.coming
