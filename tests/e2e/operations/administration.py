"""Checks of tags, API keys, the audit log and the organization itself."""

import hashlib
import hmac

import pytest

from kb_client.problems import ConcurrentChangeError, TagInUseError, UnauthenticatedError
from kb_shared.mongo.api_keys import parse_key_id
from kb_shared.mongo.database import Row
from kb_shared.settings import HttpSettings
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import TAG, UNUSED_TAG, StockedOrganization
from tests.e2e.operations.stocking import client_of_new_organization
from tests.waiting import until


@checks("tags.put")
async def check_put_tag(organization: StockedOrganization) -> None:
    answer = await organization.client.tags.put("put", name="Put")
    row = await stored_tag(organization, "put")
    assert_shows(answer, row)
    assert_holds(row, name="Put", deleted=False)


@checks("tags.put_by_id")
async def check_put_tag_by_id(organization: StockedOrganization) -> None:
    answer = await organization.client.tags.put_by_id(UNUSED_TAG, name="Renamed")
    row = await stored_tag(organization, UNUSED_TAG)
    assert_shows(answer, row)
    assert_holds(row, name="Renamed", deleted=False)


@checks("tags.list")
async def check_list_tags(organization: StockedOrganization) -> None:
    async def stored() -> list[Row]:
        rows = await organization.rows("tags", deleted=False)
        return [await stored_tag(organization, row["tag_id"]) for row in rows]

    answer, rows = await undisturbed(lambda: organization.client.tags.list(limit=100), stored)
    assert answer.total_count == len(rows)
    for tag, row in zip(answer.tags, rows, strict=True):
        assert_shows(tag, row)


@checks("tags.delete")
async def check_delete_tag(organization: StockedOrganization) -> None:
    await organization.client.tags.put("deleted", name="Deleted")
    answer = await organization.client.tags.delete("deleted")
    assert "deleted" in answer.message
    assert_holds(await organization.row("tags", tag_id="deleted"), deleted=True, revision=2)
    with pytest.raises(TagInUseError):
        await organization.client.tags.delete(TAG)


@checks("pushed_folders.put")
async def check_put_pushed_folder(organization: StockedOrganization) -> None:
    folders = organization.client.pushed_folders
    first = await folders.put("put-folder", host="laptop", path="/home/ada/docs")
    answer = await folders.put("put-folder", host="ci", path="/build", is_named=True, replaces=first.version)
    row = await organization.row("pushed_folders", name="put-folder")
    assert_shows(answer, row)
    assert_holds(row, host="ci", path="/build", is_named=True, version=2)
    with pytest.raises(ConcurrentChangeError):
        await folders.put("put-folder", host="other", path="/build", replaces=first.version)


@checks("pushed_folders.get")
async def check_get_pushed_folder(organization: StockedOrganization) -> None:
    await organization.client.pushed_folders.put("got-folder", host="laptop", path="/home/ada/docs")
    answer = await organization.client.pushed_folders.get("got-folder")
    assert_shows(answer, await organization.row("pushed_folders", name="got-folder"))


async def stored_tag(organization: StockedOrganization, tag_id: str) -> Row:
    """Return the row of a tag with the numbers of documents and KBs that have it."""
    counts = {
        "document_count": len(await organization.rows("documents", tag_ids=tag_id)),
        "knowledge_base_count": len(
            await organization.rows("knowledge_bases", tag_ids=tag_id, status={"$ne": "deleting"})
        ),
    }
    return await organization.row("tags", tag_id=tag_id) | counts


@checks("api_keys.create")
async def check_create_key(organization: StockedOrganization) -> None:
    answer = await organization.client.api_keys.create(name="reader", scopes=["read"], kb_ids=[organization.kb_id])
    row = await organization.row("api_keys", _id=answer.key_id)
    assert_shows(answer, _shown_key(row) | {"api_key": answer.api_key})
    assert_holds(row, name="reader", scopes=[], scopes_in_kbs=["read"], kb_ids=[organization.kb_id])
    assert parse_key_id(answer.api_key) == answer.key_id
    pepper = organization.running.system.stack.environment["KB_API_KEY_PEPPER"]
    assert row["hmac"] == hmac.new(pepper.encode(), answer.api_key.encode(), hashlib.sha256).digest()


@checks("api_keys.list")
async def check_list_keys(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.api_keys.list(limit=100), lambda: organization.rows("api_keys")
    )
    assert answer.total_count == len(rows)
    oldest_first = sorted(rows, key=lambda row: (row["created_at"], row["_id"]))
    for key, row in zip(answer.api_keys, oldest_first, strict=True):
        assert_shows(key, _shown_key(row))


@checks("api_keys.revoke")
async def check_revoke_key(organization: StockedOrganization) -> None:
    created = await organization.client.api_keys.create(name="revoked", scopes=["read"])
    answer = await organization.client.api_keys.revoke(created.key_id)
    assert "revoked" in answer.message
    row = await organization.row("api_keys", _id=created.key_id)
    assert row["revoked_at"] >= row["created_at"]


def _shown_key(row: Row) -> Row:
    limited = {"scopes": row["scopes_in_kbs"]} if row.get("kb_ids") else {}
    return {"key_id": row["_id"], "hashed_at": row["created_at"], **row, **limited}


@checks("whoami.get")
async def check_whoami(organization: StockedOrganization) -> None:
    answer = await organization.client.whoami.get()
    row = await organization.row("api_keys", _id=organization.key_id)
    settings = HttpSettings()
    limits = {
        "administration": {
            "of_key": settings.administrative_calls_per_minute_of_key,
            "of_organization": settings.administrative_calls_per_minute_of_organization,
        }
    }
    assert_shows(answer, {**row, "limits": limits}, names={"key_id": "_id"})


@checks("audit.list")
async def check_audit_log(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.audit.list(limit=10), lambda: organization.rows("audit_log")
    )
    assert {"tags.put", "knowledge_bases.create"} <= {row["operation"] for row in rows}
    for entry, row in zip(answer.entries, rows[::-1][:10], strict=True):
        assert_shows(entry, row, names={"entry_id": "_id"})
    assert answer.next_cursor is not None


@checks("organizations.put_settings")
async def check_put_settings(organization: StockedOrganization) -> None:
    async with client_of_new_organization(organization.running, http=organization.http) as (client, key):
        answer = await client.organizations.put_settings(strict_metadata=True)
        row = await organization.database.organizations.find_one({"_id": key.organization_id})
        assert row is not None
        assert_shows(answer, row)
        assert_holds(row, strict_metadata=True)


@checks("organizations.get_settings")
async def check_get_settings(organization: StockedOrganization) -> None:
    async with client_of_new_organization(organization.running, http=organization.http) as (client, key):
        assert not (await client.organizations.get_settings()).strict_metadata
        row = {"_id": key.organization_id, "strict_metadata": True}
        await organization.database.organizations.replace_one({"_id": key.organization_id}, row, upsert=True)
        assert_shows(await client.organizations.get_settings(), row)


@checks("organizations.delete")
async def check_delete_organization(organization: StockedOrganization) -> None:
    running = organization.running
    database = organization.database
    async with client_of_new_organization(running, http=organization.http) as (client, key):
        own = {"organization_id": key.organization_id}
        await client.tags.put("gone", name="Gone")
        answer = await client.organizations.delete(confirm=key.organization_id)
        row = await database.organization_deletions.find_one(own)
        assert row is not None
        begun: Row = {"state": "running", "step": "requested", "deleted": {}, "finished_at": None}
        assert_shows(answer, row | begun)
        assert row["requested_by"] == key.key_id

        async def is_done() -> bool:
            return await database.organization_deletions.find_one({**own, "state": "done"}) is not None

        await until(is_done, what="the organization is deleted")
        for collection in ("tags", "api_keys"):
            assert await database[collection].find_one(own) is None
        with pytest.raises(UnauthenticatedError):
            await client.tags.list()


@checks("organizations.get_deletion")
async def check_get_deletion(organization: StockedOrganization) -> None:
    async with client_of_new_organization(organization.running, http=organization.http) as (client, key):
        # As an earlier deletion leaves it: one that goes on may end, and delete the key, before it is asked for.
        row = {
            "_id": key.organization_id,
            "organization_id": key.organization_id,
            "state": "done",
            "step": "done",
            "requested_at": key.created_at,
            "requested_by": key.key_id,
            "deleted": {"tags": 2},
            "finished_at": key.created_at,
        }
        await organization.database.organization_deletions.insert_one(row)
        answer = await client.organizations.get_deletion()
        stored = await organization.database.organization_deletions.find_one({"_id": key.organization_id})
        assert stored is not None
        assert_shows(answer, stored)
        await organization.database.api_keys.delete_one({"organization_id": key.organization_id})
