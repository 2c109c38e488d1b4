from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
import structlog
from pydantic import SecretStr

from kb_api.admin_key import ensure_admin_key
from kb_api.bootstrap import KbApi, create_app
from kb_api.settings import ApiSettings
from kb_shared.errors import Misconfigured, PermanentError
from kb_shared.mongo import api_keys, tags
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.keys import TagKey
from tests.integration.kb_api.conftest import make_key
from tests.integration.kb_api.organization import OrganizationClient

NewOrganization = Callable[..., Awaitable[OrganizationClient]]

UNUSED = {"document_count": 0, "knowledge_base_count": 0}


def with_key(organization: OrganizationClient, key: str) -> OrganizationClient:
    return OrganizationClient(organization.organization_id, key, organization.http, organization.api)


async def test_a_new_key_works_within_its_scopes_and_until_it_is_revoked(organization: OrganizationClient) -> None:
    created = await organization.ok("POST", "/api-keys", json={"name": "reader", "scopes": ["read"]})
    reader = with_key(organization, created["api_key"])
    assert (await reader.ok("GET", "/knowledge-bases"))["knowledge_bases"] == []
    assert await reader.refused("POST", "/tags", json={"tag_id": "t", "name": "n"}) == (403, "missing-scope")
    assert await reader.refused("GET", "/api-keys") == (403, "missing-scope")
    await organization.ok("DELETE", f"/api-keys/{created['key_id']}")
    assert await reader.refused("GET", "/knowledge-bases") == (401, "unauthenticated")


async def test_a_key_is_shown_once_and_stored_as_a_hash_only(organization: OrganizationClient) -> None:
    created = await organization.ok("POST", "/api-keys", json={"name": "n", "scopes": ["search", "read"]})
    secret = created["api_key"].split("_", 2)[2]
    listed = await organization.ok("GET", "/api-keys")
    assert listed["total_count"] == 2
    assert secret not in str(listed)
    del created["api_key"]
    assert created in listed["api_keys"]
    row = await organization.database[api_keys.NAME].find_one({"_id": created["key_id"]})
    assert secret not in str(row)


async def test_a_key_ends_when_it_expires(organization: OrganizationClient) -> None:
    now = datetime.now(UTC)
    expired = await make_key(organization.api, organization.organization_id, expires_at=now - timedelta(seconds=1))
    assert await with_key(organization, expired).refused("GET", "/tags") == (401, "unauthenticated")
    lasting = await make_key(organization.api, organization.organization_id, expires_at=now + timedelta(hours=1))
    assert await with_key(organization, lasting).ok("GET", "/tags")


@pytest.mark.parametrize(
    "fields",
    [
        {"scopes": []},
        {"scopes": ["root"]},
        {"scopes": "read"},
        {"expires_at": "2001-01-01T00:00:00Z"},
        {"expires_at": "2999-01-01T00:00:00"},
        {"expires_at": "2999-01-01"},
        {"expires_at": 4102444800},
        {"expires_at": "0001-01-01T00:00:00+14:00"},
        {"expires_at": "tomorrow"},
        {"key_id": "mine"},
    ],
)
async def test_a_key_that_makes_no_sense_is_refused(organization: OrganizationClient, fields: dict[str, Any]) -> None:
    response = await organization.request("POST", "/api-keys", json={"name": "n", "scopes": ["read"], **fields})
    assert (response.status_code, response.json()["type"]) == (422, "validation-error")
    assert [problem["field"].split(".")[0] for problem in response.json()["fields"]] == list(fields)
    assert "tomorrow" not in response.text


async def test_the_expiry_in_the_answer_is_the_one_read_back(organization: OrganizationClient) -> None:
    asked = {"name": "n", "scopes": ["read"], "expires_at": "2999-01-01T02:00:00.123456+02:00"}
    created = await organization.ok("POST", "/api-keys", json=asked)
    del created["api_key"]
    assert created in (await organization.ok("GET", "/api-keys"))["api_keys"]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic a2I6",
        "Bearer kb_",
        "Bearer kb__",
        "Bearer x",
        "Bearer kb_\xff_\xff",
        "Bearer kb_{key_id}_wrong",
        "Bearer kb_{key_id}_",
        "Bearer sk_{key_id}_{secret}",
        "Bearer kb_{key_id}_{secret}x",
    ],
)
async def test_without_a_valid_key_it_is_401(organization: OrganizationClient, header: str | None) -> None:
    _, key_id, secret = organization.key.split("_", 2)
    value = header.format(key_id=key_id, secret=secret) if header is not None else None
    headers = [] if value is None else [(b"authorization", value.encode("latin-1"))]
    response = await organization.http.get(f"{organization.base}/tags", headers=headers)
    assert (response.status_code, response.json()["type"]) == (401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"


async def test_another_organizations_key_cannot_be_revoked(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    other = await new_organization()
    key_id = other.key.split("_")[1]
    assert await organization.refused("DELETE", f"/api-keys/{key_id}") == (404, "not-found")
    assert await other.ok("GET", "/tags")


async def test_a_tag_exists_once_it_was_named(organization: OrganizationClient) -> None:
    await organization.ok("POST", "/tags", json={"tag_id": "b", "name": "Bills"})
    await organization.tag("a")
    assert await organization.ok("GET", "/tags") == {
        "tags": [UNUSED | {"tag_id": "a", "name": None}, UNUSED | {"tag_id": "b", "name": "Bills"}],
        "total_count": 2,
    }
    await organization.create(tag_ids=["b"])


async def test_a_deleted_tag_comes_back_when_it_is_named_again(organization: OrganizationClient) -> None:
    await tags.set_state(
        organization.database, TagKey(organization.organization_id, "t"), revision=5, deleted=True, name=None
    )
    assert (await organization.ok("GET", "/tags"))["total_count"] == 0
    await organization.ok("POST", "/tags", json={"tag_id": "t", "name": "T"})
    await tags.set_state(
        organization.database, TagKey(organization.organization_id, "t"), revision=5, deleted=True, name=None
    )
    assert (await organization.ok("GET", "/tags"))["tags"] == [UNUSED | {"tag_id": "t", "name": "T"}]


def bootstrapping(api: KbApi, whole_key: str, organization_id: str) -> ApiSettings:
    return api.settings.model_copy(
        update={"bootstrap_admin_key": SecretStr(whole_key), "bootstrap_organization": organization_id}
    )


async def test_the_first_admin_key_comes_from_the_environment_once(api: KbApi, http: httpx.AsyncClient) -> None:
    whole_key = "kb_boot" + "strap_" + "x" * 32
    with structlog.testing.capture_logs() as logged:
        for _ in range(2):
            await ensure_admin_key(api.database, bootstrapping(api, whole_key, "bootstrapped"))
    assert [entry["event"] for entry in logged] == ["api_key.bootstrapped"]
    organization = OrganizationClient("bootstrapped", whole_key, http, api)
    listed = await organization.ok("GET", "/api-keys")
    assert [(key["name"], key["scopes"]) for key in listed["api_keys"]] == [("bootstrap", [Scope.ADMIN])]


@pytest.mark.parametrize("changed", ["secret", "organization", "revoked"])
async def test_a_key_of_the_environment_that_is_not_valid_is_warned_of_without_being_quoted(
    api: KbApi, changed: str
) -> None:
    key_id, organization_id = uuid4().hex, f"org-{uuid4().hex}"
    whole_key = f"kb_{key_id}_" + "x" * 32
    await ensure_admin_key(api.database, bootstrapping(api, whole_key, organization_id))
    if changed == "secret":
        whole_key = f"kb_{key_id}_" + "y" * 32
    elif changed == "organization":
        organization_id = "another"
    else:
        assert await api_keys.revoke(api.database, organization_id, key_id=key_id)
    with structlog.testing.capture_logs() as logged:
        await ensure_admin_key(api.database, bootstrapping(api, whole_key, organization_id))
    [warning] = logged
    assert (warning["event"], warning["log_level"], warning["key_id"]) == (
        "api_key.bootstrap_ignored",
        "warning",
        key_id,
    )
    assert whole_key.split("_", 2)[2] not in str(logged)


@pytest.mark.parametrize(("pepper", "warned"), [("local-pepper", True), ("a secret", False)])
def test_a_published_pepper_is_warned_of(api: KbApi, pepper: str, *, warned: bool) -> None:
    settings = api.settings.model_copy(update={"api_key_pepper": SecretStr(pepper)})
    with structlog.testing.capture_logs() as logged:
        create_app(replace(api, settings=settings))
    assert ("api_key.pepper_is_known" in [entry["event"] for entry in logged]) is warned
    assert pepper not in str(logged)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "kb-api"])
def test_a_published_pepper_is_refused_where_other_machines_get_in(api: KbApi, host: str) -> None:
    known = {"api_key_pepper": SecretStr("local-pepper"), "http_host": host}
    with pytest.raises(Misconfigured, match="set KB_API_KEY_PEPPER"):
        create_app(replace(api, settings=api.settings.model_copy(update=known)))
    own = {**known, "api_key_pepper": SecretStr("a secret")}
    create_app(replace(api, settings=api.settings.model_copy(update=own)))


@pytest.mark.parametrize("whole_key", ["sesame", "kb_sesame", "kb_sesame_short", "kb_a b_0123456789abcdef"])
async def test_a_bootstrap_key_of_another_shape_is_refused_without_being_quoted(api: KbApi, whole_key: str) -> None:
    with pytest.raises(PermanentError) as refused:
        await ensure_admin_key(api.database, bootstrapping(api, whole_key, "o"))
    assert whole_key not in str(refused.value)


async def test_a_tag_is_found_by_a_part_of_its_name_and_renamed(organization: OrganizationClient) -> None:
    for tag_id, name in (("b", "Bills (2026)"), ("l", "Letters")):
        await organization.ok("POST", "/tags", json={"tag_id": tag_id, "name": name})
    found = await organization.ok("GET", "/tags", name_search="(20")
    assert ([tag["tag_id"] for tag in found["tags"]], found["total_count"]) == (["b"], 1)
    renamed = await organization.ok("PUT", "/tags/l", json={"name": "Post"})
    assert renamed == UNUSED | {"tag_id": "l", "name": "Post"}
    assert (await organization.ok("GET", "/tags", name_search="post"))["tags"] == [renamed]
    made = await organization.ok("PUT", "/tags/new", json={"name": "New"})
    assert made == UNUSED | {"tag_id": "new", "name": "New"}
    assert await organization.refused("PUT", "/tags/a b", json={"name": "x"}) == (422, "validation-error")
