"""Keys that come at the same time are looked up together, and an invalid key does not fail the others."""

import asyncio
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from kb_shared.errors import RequestError
from kb_shared.http.authentication import Authentication
from kb_shared.http.failed_authentications import FailedAuthentications
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import StoredKey
from tests.integration.indexer.support import CommandLog
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import OrganizationClient


def authentication(organization: OrganizationClient, database: Any = None) -> Authentication:
    peppers = organization.api.settings.peppers
    return Authentication(
        organization.database if database is None else database,
        peppers=peppers,
        failures=FailedAuthentications(per_minute_of_address=0, per_minute_of_key=0),
    )


async def test_concurrent_callers_are_authenticated_by_one_query(
    new_organization: NewOrganization, search_node: Any
) -> None:
    acme, other = await new_organization(), await new_organization()
    log = CommandLog()
    async with AsyncMongoClient[dict[str, Any]](search_node.uri, tz_aware=True, event_listeners=[log]) as client:
        asked = authentication(acme, client[acme.database.name])
        keys = [
            acme.key,
            other.key,
            acme.key,
            acme.key + "x",
            "kb_0000_unknown",
            "kb_\ud800_x",
            "kb_" + "a" * 65 + "_x",
            "",
        ]
        log.clear()
        found = await asyncio.gather(*(asked.read_key(key) for key in keys), return_exceptions=True)

    organizations = [each.key.organization_id if isinstance(each, StoredKey) else None for each in found]
    assert organizations == [acme.organization_id, other.organization_id, acme.organization_id, *[None] * 5]
    assert {each.status for each in found if isinstance(each, RequestError)} == {401}
    assert log.names().count("find api_keys") == 1


async def test_a_key_that_is_revoked_is_refused_by_the_next_request(organization: OrganizationClient) -> None:
    asked = authentication(organization)
    stored = await asked.read_key(organization.key)
    await api_keys.revoke(organization.database, organization.organization_id, key_id=stored.key.key_id)
    with pytest.raises(RequestError) as refused:
        await asked.read_key(organization.key)
    assert refused.value.status == 401


async def test_a_request_with_several_keys_is_unauthenticated(organization: OrganizationClient) -> None:
    own = f"Bearer {organization.key}"
    answer = await organization.http.get(
        f"{organization.base}/knowledge-bases", headers=[("Authorization", own), ("Authorization", own)]
    )
    assert (answer.status_code, answer.json()["type"]) == (401, "unauthenticated")
    assert "several" in answer.json()["detail"]
