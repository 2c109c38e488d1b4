"""Query parameters at the edges of what they may be: an answer or a 4xx, and never an error of ours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.mongo.api_keys import Scope
from tests.isolation.conftest import DOCUMENT_ID, PROBER, TAG_ID, TwoTenants

TIMES: Final = (
    *("0001-01-01T00:00:00Z", "0001-01-15T00:00:00Z", "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00-23:59"),
    *("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59+23:59"),
    *("1969-12-31T23:59:59Z", "2026-02-29T00:00:00Z", "2026-06-30T23:59:60Z", "2026-01-01T24:00:00Z", "2026-01-01"),
    *("2026-01-01T00:00:00", "2026-01-01T00:00:00+24:00", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
)
NUMBERS: Final = (
    *("0", "-1", "1", "-0", "+1", "007", "1.0", "1e3", "1_000", "\u0661", "NaN", "inf", "0x10"),
    *(str(2**exponent + offset) for exponent in (31, 32, 53, 63, 64) for offset in (-1, 0)),
    *(str(-(2**63) - offset) for offset in (0, 1)),
    "9" * 400,
)
WORDS: Final = (
    *("", " ", "\0", "\n", "\u00e9", "\u202e", "\U0001f600", "%", "%00", "$where", "[$ne]", "{}", "..", "(a+)+$", "\\"),
    *("true", "null", "a" * 128, "a" * 129, "a" * 200, "a" * 201, "a" * 5_000),
)
RAW: Final = ("%ff", "%ed%a0%80", "%", "%zz", "+", "&", "=", "a=b;c")
"""Not encoded: what no client sends."""


@dataclass(frozen=True)
class Operation:
    """Operation of an OpenAPI document."""

    service: str
    method: str
    path: str
    parameters: Mapping[str, Sequence[str]]
    """The edge values of each query parameter, encoded."""

    def __str__(self) -> str:
        return f"{self.service} {self.method} {self.path}"


def operations(service: str, app: FastAPI) -> Iterator[Operation]:
    for path, methods in app.openapi()["paths"].items():
        for method, described in methods.items():
            parameters = {
                parameter["name"]: edges(parameter["schema"])
                for parameter in described.get("parameters", [])
                if parameter["in"] == "query"
            }
            if parameters:
                yield Operation(service, method.upper(), path, parameters)


def edges(schema: Mapping[str, Any]) -> Sequence[str]:
    """Values about the limits of `schema`, and those that no parameter takes."""
    kinds = [schema, *schema.get("anyOf", [])]
    bounds = [kind[name] for kind in kinds for name in ("minimum", "maximum", "exclusiveMaximum") if name in kind]
    values = [
        *(str(int(bound) + offset) for bound in bounds for offset in (-1, 0, 1)),
        *(value for kind in kinds for value in kind.get("enum", [kind["const"]] if "const" in kind else [])),
        *TIMES,
        *NUMBERS,
        *WORDS,
    ]
    return [*(quote(value, safe="") for value in dict.fromkeys(values)), *RAW]


@pytest.fixture(scope="session")
async def key(tenants: TwoTenants) -> str:
    return await tenants.key(PROBER, Scope.ADMIN)


@pytest.fixture(scope="session")
def asked(tenants: TwoTenants) -> list[Operation]:
    return [operation for service, app in tenants.apps.items() for operation in operations(service, app)]


async def ask(tenants: TwoTenants, key: str, operation: Operation, query: str) -> int:
    ids = {"organization_id": PROBER, "kb_id": tenants.prober.kb.kb_id, "document_id": DOCUMENT_ID, "tag_id": TAG_ID}
    path = operation.path.format_map(dict.fromkeys(placeholders(operation.path), "none") | ids)
    answer = await tenants.clients[operation.service].request(
        operation.method, f"{path}?{query}", headers={"Authorization": f"Bearer {key}"}
    )
    return answer.status_code


def placeholders(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def test_there_are_operations_with_query_parameters_in_each_service(asked: list[Operation]) -> None:
    assert {operation.service for operation in asked} == {"kb-api", "knowledge", "search"}
    assert sum("to" in operation.parameters for operation in asked) >= 2


async def test_no_time_that_can_be_written_is_an_error_of_ours(
    tenants: TwoTenants, key: str, asked: list[Operation]
) -> None:
    found = {}
    for operation in asked:
        for name in operation.parameters.keys() & {"from", "to"}:
            for time in TIMES:
                status = await ask(tenants, key, operation, f"{name}={quote(time)}")
                if status >= 500:
                    found[f"{operation}?{name}={time}"] = status
    assert not found


@given(data=st.data())
async def test_no_query_is_an_error_of_ours(
    tenants: TwoTenants, key: str, asked: list[Operation], data: st.DataObject
) -> None:
    for operation in data.draw(st.lists(st.sampled_from(asked), min_size=5, max_size=5)):
        parts = {
            name: data.draw(st.none() | st.sampled_from(values), label=name)
            for name, values in operation.parameters.items()
        }
        query = "&".join(f"{name}={value}" for name, value in parts.items() if value is not None)
        assert await ask(tenants, key, operation, query) < 500, (str(operation), query)
