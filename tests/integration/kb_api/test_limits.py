"""Limits of kb-api: administrative calls, and failures to show a right key."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from kb_api.bootstrap import KbApi, create_app
from kb_api.document_tags import DocumentTags
from kb_api.stored_bytes import StoredBytes
from kb_shared.mongo import document_texts, tags
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey, TagKey
from tests.integration.kb_api.organization import OrganizationClient


@pytest.fixture
async def limited(organization: OrganizationClient, api: KbApi) -> AsyncIterator[OrganizationClient]:
    """The organization, at a kb-api with the lowest limits."""
    limits = {
        "administrative_calls_per_minute_of_key": 1,
        "administrative_calls_per_minute_of_organization": 1_000,
        "failed_authentications_per_minute_of_address": 3,
        "failed_authentications_per_minute_of_key": 1,
    }
    other = replace(api, settings=api.settings.model_copy(update=limits))
    transport = httpx.ASGITransport(create_app(other))
    async with httpx.AsyncClient(transport=transport, base_url="http://kb-api") as http:
        yield replace(organization, http=http)


async def test_administrative_calls_have_a_limit_and_documents_have_none(limited: OrganizationClient) -> None:
    assert (await limited.request("GET", "/tags")).status_code == 200
    refused = await limited.request("GET", "/budget")
    assert (refused.status_code, refused.json()["type"]) == (429, "too-many-requests")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "of this key" in refused.json()["detail"]
    assert await limited.refused("GET", "/documents/none") == (404, "not-found")


async def test_failed_authentications_have_a_limit_that_never_applies_to_a_valid_key(
    limited: OrganizationClient,
) -> None:
    wrong = replace(limited, key=limited.key[:-1] + ("0" if limited.key[-1] != "0" else "1"))
    assert await wrong.refused("GET", "/documents/none") == (401, "unauthenticated")
    refused = await wrong.request("GET", "/documents/none")
    assert (refused.status_code, refused.json()["type"]) == (429, "too-many-failed-authentications")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    for number in range(6):
        stranger = replace(limited, key=f"kb_stranger{number}_{'0' * 40}")
        status, _ = await stranger.refused("GET", "/documents/none")
        # What was refused for the sake of its key has failed from this address, too.
        assert status == (401 if number < 1 else 429), "of this address"
    assert await limited.refused("GET", "/documents/none") == (404, "not-found"), "a right key"


@pytest.fixture
async def small(organization: OrganizationClient, api: KbApi) -> AsyncIterator[OrganizationClient]:
    """The organization, at a kb-api where it may have two keys and two tags."""
    other = replace(api, settings=api.settings.model_copy(update={"max_api_keys": 2, "max_tags": 2}))
    transport = httpx.ASGITransport(create_app(other))
    async with httpx.AsyncClient(transport=transport, base_url="http://kb-api") as http:
        yield replace(organization, http=http)


async def test_beyond_the_limit_of_keys_one_has_to_be_revoked_first(small: OrganizationClient) -> None:
    body = {"name": "K", "scopes": ["read"]}
    second = await small.ok("POST", "/api-keys", json=body)
    refused = await small.request("POST", "/api-keys", json=body)
    assert (refused.status_code, refused.json()["type"]) == (409, "quota-exceeded")
    assert (refused.json()["limit"], refused.json()["setting"]) == (2, "KB_MAX_API_KEYS")
    await small.ok("DELETE", f"/api-keys/{second['key_id']}")
    await small.ok("POST", "/api-keys", json=body)


async def test_beyond_the_limit_of_tags_none_is_made_and_those_that_are_there_can_be_renamed(
    small: OrganizationClient,
) -> None:
    for tag_id in ("a", "b"):
        await small.ok("POST", "/tags", json={"tag_id": tag_id, "name": "T"})
    assert await small.refused("POST", "/tags", json={"tag_id": "c", "name": "T"}) == (409, "quota-exceeded")
    await small.ok("POST", "/tags", json={"tag_id": "b", "name": "Renamed"})


async def test_beyond_the_limit_of_tags_no_document_brings_new_ones_and_those_with_known_tags_are_taken(
    small: OrganizationClient,
) -> None:
    document = {"document_name": "D", "upload_date": "2026-01-01T00:00:00Z", "text": "x"}
    too_many = {**document, "tag_ids": ["a", "b", "c"]}
    assert await small.refused("PUT", "/documents/d", json=too_many) == (409, "quota-exceeded")
    await small.ok("PUT", "/documents/d", json={**document, "tag_ids": ["a", "b"]})
    await small.ok("PUT", "/documents/e", json={**document, "tag_ids": ["b"]})
    assert await small.refused("PUT", "/documents/f", json={**document, "tag_ids": ["c"]}) == (409, "quota-exceeded")
    assert await small.refused("PATCH", "/documents/d/tags", json={"tag_ids": ["c"]}) == (409, "quota-exceeded")
    await small.ok("PATCH", "/documents/d/tags", json={"tag_ids": ["b", "a"]})
    await small.ok("PATCH", "/documents/d/metadata", json={"metadata": {"n": 1}})
    assert {tag["tag_id"] for tag in (await small.ok("GET", "/tags"))["tags"]} == {"a", "b"}


async def test_a_tag_that_was_deleted_may_be_named_by_documents_beyond_the_limit(
    small: OrganizationClient, api: KbApi
) -> None:
    document = {"document_name": "D", "upload_date": "2026-01-01T00:00:00Z", "text": "x"}
    await small.ok("PUT", "/documents/d", json={**document, "tag_ids": ["a", "gone"]})
    gone = TagKey(small.organization_id, "gone")
    await tags.set_state(api.database, gone, revision=5, deleted=True, name=None)
    await small.ok("POST", "/tags", json={"tag_id": "b", "name": "T"})
    await small.ok("PUT", "/documents/d", json={**document, "tag_ids": ["gone"]})


async def test_known_tags_of_a_document_are_not_looked_up_again(
    organization: OrganizationClient, api: KbApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    document_tags = DocumentTags(api.database, limit=1)
    await document_tags.register(organization.organization_id, tag_ids=["a"])
    monkeypatch.delattr(tags, "find_unregistered")
    await document_tags.register(organization.organization_id, tag_ids=["a"])


async def test_beyond_the_limit_of_stored_bytes_no_text_is_taken_and_other_changes_are(
    organization: OrganizationClient, api: KbApi
) -> None:
    stored_bytes = StoredBytes(api.database, limit=10)
    transport = httpx.ASGITransport(create_app(replace(api, stored_bytes=stored_bytes)))
    async with httpx.AsyncClient(transport=transport, base_url="http://kb-api") as http:
        full = replace(organization, http=http)
        headers = {"Authorization": f"Bearer {full.key}", "Content-Type": "text/plain"}
        path = f"{full.base}/documents/d/text"
        assert (await http.put(path, content="0123456789", headers=headers)).status_code == 200
        stored_bytes._known.discard(organization.organization_id)
        refused = await http.put(path, content="x", headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (409, "quota-exceeded")
        assert refused.json()["setting"] == "KB_MAX_STORED_BYTES"
        document = {"document_name": "D", "tag_ids": [], "upload_date": "2026-01-01T00:00:00Z", "text": "x"}
        assert await full.refused("PUT", "/documents/d", json=document) == (409, "quota-exceeded")
        assert await full.refused("DELETE", "/documents/d") == (404, "not-found")


async def test_requests_of_one_moment_count_stored_bytes_once_though_one_of_them_leaves(
    api: KbApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    may_end = asyncio.Event()

    async def count(_: Database, organization_id: str) -> int:
        counted.append(organization_id)
        await may_end.wait()
        return 0

    monkeypatch.setattr(document_texts, "count_stored_bytes", count)
    stored_bytes = StoredBytes(api.database, limit=10)
    first, *others = [asyncio.create_task(stored_bytes.require_quota("acme")) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    may_end.set()
    await asyncio.gather(*others)
    await stored_bytes.require_quota("acme")
    assert counted == ["acme"]


@pytest.mark.parametrize("characters", [10, 1_500_000])
async def test_the_bytes_of_a_text_are_counted_however_it_is_stored(
    organization: OrganizationClient, characters: int
) -> None:
    database, organization_id = organization.database, organization.organization_id
    text = "é" * characters

    async def pieces() -> AsyncIterator[bytes]:
        yield text.encode()

    for _ in range(2):
        await document_texts.put(database, DocumentKey(organization_id, "one"), text)
        await document_texts.put_stream(database, DocumentKey(organization_id, "two"), pieces())
    assert await document_texts.count_stored_bytes(database, organization_id) == 4 * characters
