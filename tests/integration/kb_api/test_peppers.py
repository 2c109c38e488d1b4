"""The pepper of API keys is replaced while keys of both are in use."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import httpx
import pytest
import structlog
from pydantic import SecretStr, ValidationError

from kb_api.bootstrap import KbApi, create_app
from kb_api.settings import ApiSettings
from kb_shared.http.authentication import Authentication
from kb_shared.http.failed_authentications import FailedAuthentications
from kb_shared.mongo import api_keys
from kb_shared.secrets.peppers import Peppers
from tests.integration.kb_api.organization import OrganizationClient

OLD, NEW = "old-pepper-0815", "new-pepper-4711"
STEPS: Final[Mapping[int, tuple[str, str | None, Sequence[str]]]] = {
    0: (OLD, None, []),
    1: (OLD, NEW, []),
    2: (NEW, None, [OLD]),
    3: (NEW, None, []),
}
"""Settings of the how-to page after the first deployment: the pepper, the next one and former ones."""


@asynccontextmanager
async def replica(api: KbApi, organization: OrganizationClient, step: int) -> AsyncIterator[OrganizationClient]:
    """The organization, at a replica that has come so far."""
    current, coming, former = STEPS[step]
    peppers = {
        "api_key_pepper": SecretStr(current),
        "api_key_next_pepper": None if coming is None else SecretStr(coming),
        "api_key_former_peppers": [SecretStr(each) for each in former],
    }
    changed = replace(api, settings=api.settings.model_copy(update=peppers))
    transport = httpx.ASGITransport(create_app(changed))
    async with httpx.AsyncClient(transport=transport, base_url="http://kb-api") as http:
        yield replace(organization, http=http, api=changed)


async def key_made_at(api: KbApi, organization: OrganizationClient, step: int) -> str:
    """A new key of the organization, made by the API."""
    database, organization_id = organization.database, organization.organization_id
    admin_id, admin_key = api_keys.create_secret_key()
    stored = await api_keys.authenticate(database, organization.key, peppers=organization.api.settings.peppers)
    assert stored is not None
    await api_keys.insert(database, replace(stored, key_id=admin_id), whole_key=admin_key, pepper=STEPS[step][0])
    async with replica(api, replace(organization, key=admin_key), step) as at:
        made = await at.ok("POST", "/api-keys", json={"name": f"of {organization_id}", "scopes": ["admin"]})
        return str(made["api_key"])


def without_uses(keys: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the keys without the time at which each was used last."""
    return [{name: value for name, value in key.items() if name != "last_used_at"} for key in keys]


async def status(api: KbApi, organization: OrganizationClient, step: int, key: str) -> int:
    async with replica(api, replace(organization, key=key), step) as at:
        return (await at.request("GET", "/api-keys")).status_code


@pytest.mark.parametrize("earlier", [0, 1, 2])
async def test_replicas_of_two_steps_that_follow_each_other_accept_all_keys(
    api: KbApi, organization: OrganizationClient, earlier: int
) -> None:
    later = earlier + 1
    keys = {step: await key_made_at(api, organization, step) for step in (earlier, later) if step != 3}
    if earlier == 2:
        # Before the last step every key was used.
        keys |= {1: await key_made_at(api, organization, 1)}
        assert await status(api, organization, 2, keys[1]) == 200
    for key in keys.values():
        for step in (earlier, later, earlier):
            assert await status(api, organization, step, key) == 200


async def test_a_key_that_is_used_gets_the_new_pepper_for_good_and_the_list_says_so(
    api: KbApi, organization: OrganizationClient
) -> None:
    used, unused = [await key_made_at(api, organization, 0) for _ in range(2)]
    async with replica(api, replace(organization, key=used), 2) as at:
        with structlog.testing.capture_logs() as logged:
            before = (await at.ok("GET", "/api-keys"))["api_keys"]
            after = (await at.ok("GET", "/api-keys"))["api_keys"]
    async with replica(api, replace(organization, key=used), 1) as behind:
        # It does not go back to the old one.
        assert without_uses((await behind.ok("GET", "/api-keys"))["api_keys"]) == without_uses(after)
    rehashed = [entry for entry in logged if entry["event"] == "api_key.rehashed"]
    assert [entry["key_id"] for entry in rehashed] == [used.split("_")[1]], "once"
    assert not any(secret in json.dumps(logged, default=str) for secret in (used, OLD, NEW))
    assert without_uses(before) == without_uses(after)
    times = {
        key["key_id"]: [datetime.fromisoformat(key[name]) for name in ("created_at", "hashed_at")] for key in after
    }
    is_rehashed = {key_id: hashed > created for key_id, (created, hashed) in times.items()}
    assert is_rehashed[used.split("_")[1]]
    assert not is_rehashed[unused.split("_")[1]]
    assert await status(api, organization, 3, used) == 200
    assert await status(api, organization, 3, unused) == 401


async def test_a_key_that_gets_the_new_pepper_is_known_as_it_is_stored_from_then_on(
    api: KbApi, organization: OrganizationClient
) -> None:
    """A search compares the two, and begins again if they differ."""
    key = await key_made_at(api, organization, 0)
    authentication = Authentication(
        organization.database,
        peppers=Peppers(NEW, former=(OLD,)),
        failures=FailedAuthentications(per_minute_of_address=0, per_minute_of_key=0),
    )
    looked_at = await authentication.read_key(key)
    [stored] = (await api_keys.find_all(organization.database, [key.split("_")[1]])).values()
    assert looked_at == stored == authentication.find_cached(key)
    assert stored.key.hashed_at is not None


async def test_a_key_that_is_wrong_or_revoked_is_so_with_every_pepper(
    api: KbApi, organization: OrganizationClient
) -> None:
    key = await key_made_at(api, organization, 0)
    assert await status(api, organization, 2, key[:-1] + ("a" if key[-1] != "a" else "b")) == 401
    assert await api_keys.revoke(organization.database, organization.organization_id, key_id=key.split("_")[1])
    assert await status(api, organization, 2, key) == 401


def test_peppers_come_from_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_API_KEY_PEPPER", NEW)
    monkeypatch.setenv("KB_API_KEY_NEXT_PEPPER", "next-pepper")
    monkeypatch.setenv("KB_API_KEY_FORMER_PEPPERS", json.dumps([OLD, "a, b"]))
    settings = ApiSettings()
    assert list(settings.peppers) == [NEW, OLD, "a, b", "next-pepper"]
    assert not any(secret in f"{settings!r} {settings.peppers!r}" for secret in (OLD, NEW, "next-pepper"))
    monkeypatch.setenv("KB_API_KEY_FORMER_PEPPERS", json.dumps([OLD, [NEW]]))
    with pytest.raises(ValidationError) as refused:
        ApiSettings()
    assert OLD not in str(refused.value)
    assert NEW not in str(refused.value)
