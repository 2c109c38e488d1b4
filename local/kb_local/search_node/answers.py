"""The possible results of a command that the proxy has decoded."""

from dataclasses import dataclass
from typing import Any

from kb_local.search_node.errors import CommandError


@dataclass(frozen=True, slots=True)
class PassThrough:
    """mongod answers it, byte for byte as it came."""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """mongod answers this command in its place."""

    command: dict[str, Any]


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """The proxy answers it; mongod never sees it."""

    reply: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Aborted:
    """Refused within a transaction: mongod fails `command` and so aborts the transaction; the client gets `error`.

    Answered here alone, mongod would keep the transaction open and later commit it.
    """

    command: dict[str, Any]
    error: CommandError


Answer = PassThrough | Forwarded | IndexAnswer | Aborted
