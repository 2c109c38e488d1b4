"""The client calls every operation of the OpenAPI document, and each answer shows what MongoDB holds.

After the files that ask the oracle, by its name: the oracle does not know of these documents and KBs.
"""

import json
import re
from collections.abc import AsyncIterator
from functools import cache
from typing import Final

import httpx
import pytest

from tests.e2e.operations.registry import CHECKS
from tests.e2e.operations.stocked_organization import StockedOrganization
from tests.e2e.operations.stocking import stocked_organization
from tests.e2e.running_system import RunningSystem
from tests.openapi.document import PACKAGED

METHODS: Final = ("get", "put", "post", "patch", "delete")


@cache
def documented_operations() -> dict[str, tuple[str, re.Pattern[str]]]:
    """Return the method and a pattern of the path of each operation, by its id."""
    paths = json.loads(PACKAGED.read_text())["paths"]
    return {
        described["operationId"]: (method.upper(), re.compile(re.sub(r"\\?\{\w+\\?\}", "[^/]+", re.escape(path))))
        for path, operations in paths.items()
        for method, described in operations.items()
        if method in METHODS
    }


@pytest.fixture(scope="module")
async def organization(running: RunningSystem) -> AsyncIterator[StockedOrganization]:
    async with stocked_organization(running) as stocked:
        yield stocked


@pytest.fixture
async def sent(organization: StockedOrganization) -> AsyncIterator[list[httpx.Request]]:
    """Requests that the client has sent in this test."""
    requests: list[httpx.Request] = []

    async def remember(request: httpx.Request) -> None:
        requests.append(request)

    organization.http.event_hooks["request"] = [remember]
    yield requests
    organization.http.event_hooks["request"] = []


def test_there_is_a_check_for_each_operation_and_no_other() -> None:
    assert CHECKS.keys() == documented_operations().keys()


@pytest.mark.parametrize("operation_id", sorted(CHECKS))
async def test_an_answer_shows_what_is_stored(
    operation_id: str, organization: StockedOrganization, sent: list[httpx.Request]
) -> None:
    await CHECKS[operation_id](organization)
    method, path = documented_operations()[operation_id]
    assert any(request.method == method and path.fullmatch(request.url.path) for request in sent), (
        "the check did not call its operation"
    )
