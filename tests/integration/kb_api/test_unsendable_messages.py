"""What Kafka refused for good is listed to whose it is, shown at its document, and can be sent again."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from kb_api.services import Services
from kb_shared.contracts import topics
from kb_shared.errors import MessageRefused
from kb_shared.mongo import outbox
from kb_shared.mongo.database import Session, in_transaction
from kb_shared.unsendable_messages import set_aside
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import Organization

BODY = {
    "document_name": "Offer 17.pdf",
    "tag_ids": ["offers"],
    "upload_date": "2026-01-31T00:00:00Z",
    "text": "a secret text",
}


async def waiting(organization: Organization) -> list[outbox.Message]:
    """The organization's document events in the outbox that are to be sent."""
    messages = await outbox.unsent(organization.database, range(outbox.BUCKETS), limit=10_000)
    prefix = f"{organization.organization_id}/".encode()
    return [m for m in messages if m.topic == topics.DOCUMENT_EVENTS.name and (m.key or b"").startswith(prefix)]


async def refuse(organization: Organization, reason: str = "too-large") -> None:
    """As the relay does with all that waits of this organization."""
    for message in await waiting(organization):
        refusal = MessageRefused("the message is too large for Kafka", reason=reason)
        await set_aside(organization.database, message, refusal, size_bytes=1_234_567)


async def listed(organization: Organization, **params: Any) -> list[dict[str, Any]]:
    answer = await organization.ok("GET", "/unsendable-messages", **params)
    messages: list[dict[str, Any]] = answer["unsendable_messages"]
    return messages


async def test_a_refused_message_is_listed_with_its_reason_and_without_what_it_holds(
    organization: Organization,
) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    await refuse(organization)
    [message] = await listed(organization)
    assert (message["topic"], message["document_id"], message["reason"]) == ("document-events", "d1", "too-large")
    assert message["size_bytes"] == 1_234_567
    assert message["unsendable_at"] >= message["created_at"]
    assert message["redriven_at"] is None
    assert "secret" not in str(message)


async def test_filters_and_pages_find_what_they_name(organization: Organization) -> None:
    for number in range(3):
        await organization.ok("PUT", f"/documents/d{number}", json=BODY)
        await refuse(organization, "too-large" if number else "invalid-record")
    assert [message["document_id"] for message in await listed(organization)] == ["d2", "d1", "d0"]
    assert [message["document_id"] for message in await listed(organization, reason="invalid-record")] == ["d0"]
    assert await listed(organization, topic="kb-events") == []
    page = await organization.ok("GET", "/unsendable-messages", skip=1, limit=1)
    assert ([message["document_id"] for message in page["unsendable_messages"]], page["total_count"]) == (["d1"], 3)


async def test_a_redriven_message_waits_to_be_sent_once_and_says_who_asked_first(organization: Organization) -> None:
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
async def test_a_message_that_does_not_exist_is_not_found(organization: Organization, message_id: str) -> None:
    assert await organization.refused("POST", f"/unsendable-messages/{message_id}/redrive") == (404, "not-found")


async def test_a_message_that_was_never_refused_cannot_be_redriven(organization: Organization) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    [message] = await waiting(organization)
    assert await organization.refused("POST", f"/unsendable-messages/{message.id}/redrive") == (404, "not-found")


async def test_a_document_shows_which_of_its_accepted_events_were_not_published(organization: Organization) -> None:
    await organization.ok("PUT", "/documents/d1", json=BODY)
    assert (await organization.ok("GET", "/documents/d1"))["unsendable_messages"] == []
    await refuse(organization)
    await organization.ok("PUT", "/documents/d2", json=BODY)
    [shown] = (await organization.ok("GET", "/documents/d1"))["unsendable_messages"]
    assert (shown["reason"], shown["message_id"]) == ("too-large", (await listed(organization))[0]["message_id"])
    assert (await organization.ok("GET", "/documents/d2"))["unsendable_messages"] == []


async def test_another_organization_sees_none_of_it_and_messages_of_nobody_are_not_shown(
    services: Services, organization: Organization, new_organization: NewOrganization
) -> None:
    async def add(session: Session) -> None:
        await outbox.add_as_it_was(
            services.database,
            session,
            topic=topics.DOCUMENT_EVENTS.name,
            key=b"\xff",
            value=b"whose?",
            headers=[],
            ordering=(ordering := uuid4().hex),
            traceparent="",
        )
        orderings.append(ordering)

    orderings: list[str] = []
    await in_transaction(services.database, add)
    for message in await outbox.unsent(services.database, range(outbox.BUCKETS), limit=10_000):
        if message.ordering in orderings:
            await set_aside(services.database, message, MessageRefused("", reason="too-large"), size_bytes=1)
    await organization.ok("PUT", "/documents/d1", json=BODY)
    await refuse(organization)
    other = await new_organization()
    [mine] = await listed(organization)
    assert await listed(other) == []
    path = f"/unsendable-messages/{mine['message_id']}/redrive"
    assert await other.refused("POST", path) == (404, "not-found")
    assert len(await listed(organization)) == 1
