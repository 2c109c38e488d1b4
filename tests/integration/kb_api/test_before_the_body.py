"""What a request costs before its key is known to be right, and how many there may be at once."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from kb_api.bootstrap import KbApi, create_app
from kb_contracts import strict_json
from kb_contracts.reasons.field_reasons import MAX_ERRORS
from kb_contracts.strict_json import MAX_VALUES
from kb_shared.errors import RequestError
from kb_shared.http import routing
from kb_shared.http.admission import Admission, long_running
from kb_shared.http.body_limits import MAX_BODY_BYTES
from kb_shared.http.large_bodies import LARGE_BYTES, MAX_IN_MEMORY_OF_ORGANIZATION
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until

JSON = {"Content-Type": "application/json"}


def with_key(organization: OrganizationClient, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {organization.key}", **JSON, **headers}


@pytest.mark.parametrize("key", ["", "Bearer kb_0_0", "Basic eDp5"])
async def test_no_part_of_a_body_is_read_without_a_key(organization: OrganizationClient, key: str) -> None:
    was_read = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal was_read
        was_read = True
        yield b"x"

    answer = await organization.http.post(
        f"{organization.base}/tags", content=body(), headers={**JSON, "Authorization": key}
    )
    assert (answer.status_code, was_read) == (401, False)


@pytest.mark.parametrize(
    ("query", "body", "headers"),
    [
        ("", b"{", JSON),
        ("", b"{}", {"Content-Type": "text/plain"}),
        ("?unknown=1", b"{}", JSON),
        ("", b"{}", {**JSON, "Idempotency-Key": "not a key"}),
        ("", b" " * (MAX_BODY_BYTES + 1), JSON),
    ],
)
async def test_whatever_is_wrong_with_a_request_it_is_401_without_a_key(
    organization: OrganizationClient, query: str, body: bytes, headers: dict[str, str]
) -> None:
    answer = await organization.http.post(f"{organization.base}/tags{query}", content=body, headers=headers)
    assert answer.status_code == 401
    known = await organization.http.post(
        f"{organization.base}/tags{query}", content=body, headers={**with_key(organization), **headers}
    )
    assert 400 <= known.status_code < 500
    assert known.status_code != 401


async def test_another_organizations_path_is_404_whatever_the_body(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    other = await new_organization()
    answer = await organization.http.post(f"{other.base}/tags", content=b"{", headers=with_key(organization))
    assert answer.status_code == 404


async def test_a_large_body_is_taken_as_a_small_one_is(organization: OrganizationClient) -> None:
    tags = {"tag_id": "x", "name": "X"}
    large = b" " * LARGE_BYTES + httpx.Request("POST", "http://x", json=tags).content
    answer = await organization.http.post(f"{organization.base}/tags", content=large, headers=with_key(organization))
    assert answer.status_code == 201
    wrong = await organization.http.post(
        f"{organization.base}/tags", content=large.replace(b"name", b"nome"), headers=with_key(organization)
    )
    assert [found["field"] for found in wrong.json()["fields"]] == ["name", "nome"]


async def test_only_large_bodies_are_parsed_in_another_thread(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def parse(body: bytes, *, max_values: int) -> Any:
        threads.append(threading.current_thread().name)
        return strict_json.parse(body, max_values=max_values)

    monkeypatch.setattr(routing, "strict_json", SimpleNamespace(**{**vars(strict_json), "parse": parse}))
    tag = httpx.Request("POST", "http://x", json={"tag_id": "x", "name": "X"}).content
    for body in (tag, b" " * LARGE_BYTES + tag):
        answer = await organization.http.post(f"{organization.base}/tags", content=body, headers=with_key(organization))
        assert answer.status_code == 201
    assert [name.startswith("large-bodies") for name in threads] == [False, True]


async def test_a_body_with_very_many_errors_is_refused_without_a_list_of_them(organization: OrganizationClient) -> None:
    unknown = b"{" + b",".join(b'"%x":0' % number for number in range(2 * MAX_ERRORS)) + b"}"
    answer = await organization.http.post(f"{organization.base}/tags", content=unknown, headers=with_key(organization))
    assert (answer.status_code, [found["field"] for found in answer.json()["fields"]]) == (422, ["body"])


async def test_a_body_of_very_many_values_is_refused(organization: OrganizationClient) -> None:
    values = b"[" + b",".join([b"0"] * (MAX_VALUES + 1)) + b"]"
    answer = await organization.http.post(f"{organization.base}/tags", content=values, headers=with_key(organization))
    assert (answer.status_code, answer.json()["type"]) == (400, "malformed-json")


OtherSettings = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def other_settings(api: KbApi) -> AsyncIterator[OtherSettings]:
    """A kb-api with other settings, on the same database."""
    async with AsyncExitStack() as opened:

        def make(**changed: Any) -> httpx.AsyncClient:
            settings = api.settings.model_copy(update=changed)
            transport = httpx.ASGITransport(create_app(replace(api, settings=settings)))
            client = httpx.AsyncClient(transport=transport, base_url="http://kb-api")
            opened.push_async_callback(client.aclose)
            return client

        yield make


@asynccontextmanager
async def under_way(organization: OrganizationClient, *, first: bytes = b"", number: int = 1) -> AsyncIterator[None]:
    """Requests that have sent `first` of their bodies and not yet the rest."""
    waiting, go_on = 0, asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        nonlocal waiting
        if first:
            yield first
        waiting += 1
        await go_on.wait()
        yield b"{}"

    requests = [
        asyncio.ensure_future(
            organization.http.post(f"{organization.base}/tags", content=body(), headers=with_key(organization))
        )
        for _ in range(number)
    ]
    await until(lambda: waiting == number)
    yield
    go_on.set()
    assert {answer.status_code for answer in await asyncio.gather(*requests)} == {422}


async def test_only_an_organization_with_too_many_concurrent_requests_is_refused(
    new_organization: NewOrganization, other_settings: OtherSettings
) -> None:
    http = other_settings(http_max_requests_of_organization=2)
    busy, other = [replace(await new_organization(), http=http) for _ in range(2)]
    async with under_way(busy, number=2):
        refused = await busy.request("GET", "/tags")
        assert (refused.status_code, refused.json()["type"]) == (429, "too-many-at-once")
        assert refused.headers["retry-after"] == "1"
        assert (await other.request("GET", "/tags")).status_code == 200
    assert (await busy.request("GET", "/tags")).status_code == 200


async def test_beyond_the_concurrency_limit_of_the_service_every_authenticated_request_is_503(
    new_organization: NewOrganization, other_settings: OtherSettings
) -> None:
    http = other_settings(http_max_requests=2)
    busy, other = [replace(await new_organization(), http=http) for _ in range(2)]
    async with under_way(busy, number=2):
        refused = await other.request("GET", "/tags")
        assert (refused.status_code, refused.json()["type"]) == (503, "overloaded")
        assert refused.headers["retry-after"] == "1"
        assert (await http.get(f"{other.base}/tags")).status_code == 401
        assert (await http.get("/healthz")).status_code == 200
    assert (await other.request("GET", "/tags")).status_code == 200


async def test_a_refused_request_does_not_count_against_the_concurrency_limit(
    organization: OrganizationClient, other_settings: OtherSettings
) -> None:
    http = other_settings(http_max_requests=1, http_max_requests_of_organization=1)
    organization = replace(organization, http=http)
    for _ in range(3):
        assert (await http.get(f"{organization.base}/tags")).status_code == 401
        assert (await organization.request("GET", "/tags", unknown="1")).status_code == 422
        assert (await organization.request("GET", "/tags")).status_code == 200


async def test_an_organization_has_few_large_bodies_in_memory_at_once(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    other = await new_organization()
    large = b" " * (LARGE_BYTES + 1)
    async with under_way(organization, first=large, number=MAX_IN_MEMORY_OF_ORGANIZATION):
        headers = with_key(organization)
        refused = await organization.http.post(f"{organization.base}/tags", content=large + b"{}", headers=headers)
        assert refused.status_code == 429
        small = await organization.http.post(f"{organization.base}/tags", content=b"{}", headers=headers)
        assert small.status_code == 422
        theirs = await other.http.post(f"{other.base}/tags", content=large + b"{}", headers=with_key(other))
        assert theirs.status_code == 422


def test_long_running_requests_have_a_concurrency_limit_of_their_own(api: KbApi) -> None:
    @long_running
    async def stream() -> None: ...

    async def quick() -> None: ...

    admission = Admission(api.settings.model_copy(update={"http_max_requests": 1, "http_max_streams": 1}))
    with ExitStack() as held:
        scope = {"state": {"resources": held}}
        for endpoint in (stream, quick):
            admission.admit(scope, "acme", endpoint=endpoint)
        for endpoint in (stream, quick):
            with pytest.raises(RequestError) as refused:
                admission.admit(scope, "other", endpoint=endpoint)
            assert refused.value.status == 503
