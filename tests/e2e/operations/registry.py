"""Lists the checks by the operation that each is about."""

from collections.abc import Awaitable, Callable
from typing import Final

from tests.e2e.operations.stocked_organization import StockedOrganization

OperationCheck = Callable[[StockedOrganization], Awaitable[None]]

CHECKS: Final[dict[str, OperationCheck]] = {}
"""Checks by operation id. Importing a module of this folder adds its checks."""


def checks(operation_id: str) -> Callable[[OperationCheck], OperationCheck]:
    """Register a function as the check of an operation. There is one for each."""

    def register(check: OperationCheck) -> OperationCheck:
        assert operation_id not in CHECKS, f"{operation_id} has two checks"
        CHECKS[operation_id] = check
        return check

    return register
