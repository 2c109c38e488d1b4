"""Nothing of a deleted organization remains but the sums of its charges, wherever the process dies."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from kb_api import organization_deletions
from kb_api.organization_deletions import ROWS_OF_ORGANIZATIONS
from kb_reconciler.backup import scope
from kb_shared import failpoints
from kb_shared.mongo import document_texts, outbox, spu_ledger
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.spu_ledger import Charge
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until

NewOrganization = Callable[..., Awaitable[OrganizationClient]]


class ProcessDied(BaseException):
    """Stands for a process that is killed at a failpoint."""


async def fill(organization: OrganizationClient) -> str:
    """Let the organization have something in many collections."""
    await organization.tag("t")
    kb_id = str((await organization.create(tag_ids=["t"]))["kb_id"])
    await organization.project("d", name="d", tag_ids=("t",))
    await organization.index(kb_id, "d", name="d", chunks=1)
    await organization.open_job(kb_id, "e")
    await organization.ok("POST", "/api-keys", json={"name": "n", "scopes": ["read"]})
    await organization.ok("PUT", "/budget", json={"soft": 1, "hard": 2})
    put = {"document_name": "n", "tag_ids": ["t"], "upload_date": "2026-01-31T00:00:00Z", "text": "x"}
    await organization.ok("PUT", "/documents/f", json=put)
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/reconcile")

    async def long_text() -> AsyncIterator[bytes]:
        yield b"long " * 300_000

    key = DocumentKey(organization.organization_id, "d")
    await document_texts.put_stream(organization.database, key, long_text())
    charges = [
        Charge(
            ledger_id=uuid4().hex,
            organization_id=organization.organization_id,
            kb_id=kb_id,
            operation="index",
            model="m",
            count=2,
            nano_usd=5,
        )
        for _ in range(3)
    ]
    await spu_ledger.charge(organization.database, None, charges)
    return kb_id


async def remains(database: Database, *needles: str) -> dict[str, int]:
    """Count the rows of each collection that contain one of the texts anywhere."""
    found: dict[str, int] = {}
    for name in await database.list_collection_names():
        rows = [row async for row in database[name].find({})]
        count = sum(any(needle in str(row) for needle in needles) for row in rows)
        if count:
            found[name] = count
    return found


async def send_messages(organization: OrganizationClient) -> None:
    """As the relay does."""
    within = {"$regex": f"^{organization.organization_id}"}
    await organization.database[outbox.NAME].update_many({"key": within}, {"$set": {"sent_at": datetime.now(UTC)}})


async def delete(organization: OrganizationClient) -> None:
    deletions = organization.api.organization_deletions

    async def is_gone() -> bool:
        await send_messages(organization)
        await deletions.advance_all()
        return (await organization.request("GET", "/deletion")).status_code == 401

    await until(is_gone)


async def until_only_the_deletion_remains(organization: OrganizationClient, *others: str) -> None:
    """Sweep until nothing is written any more: the debts of requests are written a second after them."""

    async def is_swept() -> bool:
        await organization.database[organization_deletions.NAME].update_one(
            {"_id": organization.organization_id}, {"$set": {"again_at": datetime.now(UTC)}}
        )
        await organization.api.organization_deletions.advance_all()
        left = await remains(organization.database, organization.organization_id, *others)
        return left == {organization_deletions.NAME: 1}

    await until(is_swept)


async def die_at(organization: OrganizationClient, failpoint: str) -> None:
    """Advance the deletion until its process dies at the failpoint."""

    async def die() -> None:
        raise ProcessDied

    async def is_dead() -> bool:
        await send_messages(organization)
        try:
            async with failpoints.during(failpoint, die):
                await organization.api.organization_deletions.advance_all()
        except ProcessDied:
            return True
        return False

    await until(is_dead)


@pytest.mark.usefixtures("living")
async def test_nothing_remains_but_the_sums_of_charges_although_the_process_dies_at_each_step(
    new_organization: NewOrganization,
) -> None:
    organization, other = await new_organization(), await new_organization()
    kb_id, other_kb = await fill(organization), await fill(other)
    organization_id = organization.organization_id
    kept = await remains(organization.database, other.organization_id, other_kb)
    answer = await organization.ok("DELETE", "", confirm=organization_id)
    assert answer["state"] == "running"
    for failpoint in failpoints.OF_ORGANIZATION_DELETIONS:
        await die_at(organization, failpoint)
    await delete(organization)
    await until_only_the_deletion_remains(organization, kb_id)
    # One SPU is that of the embedding that detected the dimensions.
    row = await organization.database[organization_deletions.NAME].find_one({"_id": organization_id})
    assert row is not None
    assert row["charged"] == {f"{datetime.now(UTC):%Y-%m}": {"spus": 7, "nano_usd": 15}}
    assert (await remains(organization.database, other.organization_id, other_kb)).keys() >= kept.keys() - {"leases"}


@pytest.mark.usefixtures("living")
async def test_other_keys_end_at_once_and_what_is_written_late_is_swept(new_organization: NewOrganization) -> None:
    organization = await new_organization()
    reader = await new_organization(Scope.READ, organization_id=organization.organization_id)
    await fill(organization)
    await organization.ok("DELETE", "", confirm=organization.organization_id)
    await organization.api.organization_deletions.advance_all()
    assert await reader.refused("GET", "/tags") == (401, "unauthenticated")
    await delete(organization)
    await organization.tag("late")
    await until_only_the_deletion_remains(organization)


async def test_it_needs_a_confirmation(organization: OrganizationClient) -> None:
    for confirm in ({}, {"confirm": "another"}):
        assert await organization.refused("DELETE", "", **confirm) == (422, "validation-error")
    assert await organization.refused("GET", "/deletion") == (404, "not-found")


def test_every_collection_with_rows_of_an_organization_is_deleted_or_has_a_way_of_its_own() -> None:
    with_way_of_their_own = {
        "api_keys",
        "knowledge_bases",
        "kb_slots",
        "spu_ledger",
        scope.TEXT_FILES,
        scope.TEXT_FILE_CHUNKS,
        organization_deletions.NAME,
    }
    without_organization = {"leases", "reconciler_state", "deployment", scope.MARKER}
    every = {*scope.SHARED, *scope.OF_KNOWLEDGE_BASES, *scope.LEFT_OUT}
    assert {rows.collection for rows in ROWS_OF_ORGANIZATIONS} == every - with_way_of_their_own - without_organization
