"""What Kafka refused for good is listed to whose it is, shown at its document, and can be sent again."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from kb_api.bootstrap import KbApi, create_app, create_kb_api
from kb_contracts import topics
from kb_shared.errors import MessageRefused
from kb_shared.messaging.unsendable_messages import mark_unsendable
from kb_shared.mongo import outbox
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import MongoSession, in_transaction
from tests.integration.kb_api.conftest import NewOrganization, make_key
from tests.integration.kb_api.organization import OrganizationClient

BODY = {
    "document_name": "Offer 17.pdf",
    "tag_ids": ["offers"],
    "upload_date": "2026-01-31T00:00:00Z",
    "text": "a secret text",
}


async def waiting(organization: OrganizationClient) -> list[outbox.OutboxMessage]:
    """The organization's document events in the outbox that are to be sent."""
    messages = await outbox.find_unsent(organization.database, range(outbox.BUCKETS), limit=10_000)
    prefix = f"{organization.organization_id}/".encode()
    return [m for m in messages if m.topic == topics.DOCUMENT_EVENTS.name and (m.key or b"").startswith(prefix)]


async def refuse(organization: OrganizationClient, reason: str = "too-large") -> None:
    """As the relay does with all that waits of this organization."""
    for message in await waiting(organization):
        refusal = MessageRefused("the message is too large for Kafka", reason=reason)
        await mark_unsendable(organization.database, message, refusal=refusal, size_bytes=1_234_567)


async def listed(organization: OrganizationClient, **params: Any) -> list[dict[str, Any]]:
    answer = await organization.ok("GET", "/unsendable-messages", **params)
    messages: list[dict[str, Any]] = answer["unsendable_messages"]
    return messages


async def test_a_refused_message_is_listed_with_its_reason_and_without_what_it_holds(
    organization: OrganizationClient,
) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    await refuse(organization)
    [message] = await listed(organization)
    assert (message["topic"], message["document_id"], message["reason"]) == ("document-events", "d1", "too-large")
    assert message["size_bytes"] == 1_234_567
    assert message["unsendable_at"] >= message["created_at"]
    assert message["redriven_at"] is None
    assert "secret" not in str(message)


async def test_filters_and_pages_find_what_they_name(organization: OrganizationClient) -> None:
    for number in range(3):
        await organization.ok("PUT", f"/documents/d{number}", json=BODY)
        await refuse(organization, "too-large" if number else "invalid-record")
    assert [message["document_id"] for message in await listed(organization)] == ["d2", "d1", "d0"]
    assert [message["document_id"] for message in await listed(organization, reason="invalid-record")] == ["d0"]
    assert await listed(organization, topic="kb-events") == []
    page = await organization.ok("GET", "/unsendable-messages", skip=1, limit=1)
    assert ([message["document_id"] for message in page["unsendable_messages"]], page["total_count"]) == (["d1"], 3)


async def test_a_redriven_message_waits_to_be_sent_once_and_says_who_asked_first(
    organization: OrganizationClient,
) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    [before] = await waiting(organization)
    await refuse(organization)
    [message] = await listed(organization)
    path = f"/unsendable-messages/{message['message_id']}/redrive"
    answers = await asyncio.gather(*(organization.ok("POST", path) for _ in range(3)))
    assert len({(answer["redriven_at"], answer["redriven_by"]) for answer in answers}) == 1
    assert answers[0]["redriven_by"] == organization.key.split("_")[1]
    assert await listed(organization) == []
    assert await waiting(organization) == [before]


@pytest.mark.parametrize("message_id", ["none", "65f000000000000000000000"])
async def test_a_message_that_does_not_exist_is_not_found(organization: OrganizationClient, message_id: str) -> None:
    assert await organization.refused("POST", f"/unsendable-messages/{message_id}/redrive") == (404, "not-found")


async def test_a_message_that_was_never_refused_cannot_be_redriven(organization: OrganizationClient) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    [message] = await waiting(organization)
    assert await organization.refused("POST", f"/unsendable-messages/{message.id}/redrive") == (404, "not-found")


async def test_a_document_shows_which_of_its_accepted_events_were_not_published(
    organization: OrganizationClient,
) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    assert (await organization.ok("GET", "/documents/d1"))["unsendable_messages"] == []
    await refuse(organization)
    await organization.ok("PUT", "/documents/d2", json=BODY)
    [shown] = (await organization.ok("GET", "/documents/d1"))["unsendable_messages"]
    assert (shown["reason"], shown["message_id"]) == ("too-large", (await listed(organization))[0]["message_id"])
    assert (await organization.ok("GET", "/documents/d2"))["unsendable_messages"] == []


async def test_another_organization_neither_sees_nor_redrives_it(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    await refuse(organization)
    other = await new_organization()
    [message] = await listed(organization)
    assert await listed(other) == []
    path = f"/unsendable-messages/{message['message_id']}/redrive"
    assert await other.refused("POST", path) == (404, "not-found")
    assert len(await listed(organization)) == 1


async def test_a_message_without_an_owner_is_seen_by_the_operators_admins_only(
    api: KbApi, organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    reason = f"reason-{uuid4().hex[:8]}"
    await mark_ownerless_message_unsendable(api, reason)
    assert await listed(organization, reason=reason) == []

    operator = await new_organization()
    settings = api.settings.model_copy(update={"operator_organization": operator.organization_id})
    app = create_app(create_kb_api(settings, database=api.database, embedder=api.embedder))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kb-api") as http:
        admin = OrganizationClient(operator.organization_id, operator.key, http, api)
        weak_key = await make_key(api, operator.organization_id, Scope.READ, Scope.WRITE)
        member = OrganizationClient(operator.organization_id, weak_key, http, api)
        [message] = await listed(admin, reason=reason)
        path = f"/unsendable-messages/{message['message_id']}/redrive"
        assert await listed(member, reason=reason) == []
        assert await member.refused("POST", path) == (404, "not-found")
        assert (await admin.ok("POST", path))["redriven_by"] == operator.key.split("_")[1]


async def mark_ownerless_message_unsendable(api: KbApi, reason: str) -> None:
    ordering = uuid4().hex

    async def add(session: MongoSession) -> None:
        received = outbox.ReceivedRecord(topics.DOCUMENT_EVENTS.name, b"\xff", b"whose?", [], "")
        await outbox.add_records(api.database, session, [received], ordering=ordering)

    await in_transaction(api.database, add)
    for message in await outbox.find_unsent(api.database, range(outbox.BUCKETS), limit=10_000):
        if message.ordering == ordering:
            await mark_unsendable(api.database, message, refusal=MessageRefused("", reason=reason), size_bytes=1)
