"""Errors of refused commands: codes, names and texts as Atlas sends them."""

from typing import Any


class CommandError(Exception):
    """A refused command, with the code and the text that the client sees."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.message = message

    def as_reply(self) -> dict[str, Any]:
        return {"ok": 0.0, "errmsg": self.message, "code": self.code, "codeName": self.name}


def search_error(message: str) -> CommandError:
    """Build the error of a query that the search process refused. Atlas wraps its text, too, and uses code 8."""
    return CommandError(8, "UnknownError", f"PlanExecutor error during aggregation :: caused by :: {message}")


def definition_error(message: str) -> CommandError:
    return CommandError(2, "BadValue", message)


def index_not_found(selector: str, namespace: object) -> CommandError:
    return CommandError(27, "IndexNotFound", f"No index with {selector} exists in namespace {namespace}")


def not_in_transaction(operation: str) -> CommandError:
    return CommandError(
        263,
        "OperationNotSupportedInTransaction",
        "Operation not permitted in transaction :: caused by :: "
        f"{operation} cannot run within a multi-document transaction",
    )


def not_implemented(what: str) -> CommandError:
    return CommandError(238, "NotImplemented", f"{what} is not implemented by this local search node")
