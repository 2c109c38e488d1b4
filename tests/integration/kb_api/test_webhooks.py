"""Each event reaches each webhook that wants it, signed, and no receiver holds up another."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from bson import ObjectId

from kb_api.webhooks import deliver, deliveries, webhook_rows
from kb_api.webhooks.deliver import WebhookDeliverer
from kb_api.webhooks.webhook_rows import WebhookKey
from kb_api.webhooks.webhook_secrets import WebhookSecrets
from kb_api.webhooks.webhook_sender import WebhookSender
from kb_client.webhooks import WebhookNotVerified, verify
from kb_shared import failpoints
from kb_shared.secrets.key_ring import KeyRing
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_events import KB, OTHER_KB, ProcessDied, happen, indexed, list_all, removed
from tests.integration.kb_api.webhook_receiver import Receiver, another_process, deliver_all, deliveries_of, make_due
from tests.waiting import until

NewOrganization = Callable[..., Awaitable[OrganizationClient]]


async def test_events_that_a_webhook_wants_are_delivered_once_with_a_signature(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    await happen(owner, indexed(owner, "before"))
    await list_all(owner.api)
    hook = await owner.ok(
        "POST", "/webhooks", json={"url": receiver.url, "event_types": ["document.indexed.v1"], "description": "d"}
    )
    await happen(owner, indexed(owner, "a"), removed(owner, "b"), indexed(owner, "c", kb_id=OTHER_KB))
    await deliver_all(owner.api)
    assert sorted(receiver.documents(hook["secret"])) == ["a", "c"]
    with pytest.raises(WebhookNotVerified):
        receiver.documents("whsec_AAAA")
    [headers, body] = receiver.received[0]
    assert headers["content-type"] == "application/json"
    listed = (await owner.ok("GET", "/events"))["events"]
    event = verify(body, headers, secrets=[hook["secret"]])
    assert event in listed
    assert headers["webhook-id"] == event["id"]
    for each in await deliveries_of(owner, hook):
        assert (each["state"], each["attempts"], each["last_status"]) == ("delivered", 1, 204)
        assert (each["last_error"], each["next_attempt_at"]) == (None, None)
    shown = [await owner.ok("GET", "/webhooks"), await owner.ok("GET", f"/webhooks/{hook['webhook_id']}")]
    stored = await owner.database[webhook_rows.NAME].find_one({"_id": hook["webhook_id"]})
    assert hook["secret"] not in f"{shown}{stored}"
    await deliver_all(owner.api)
    assert len(receiver.received) == 2


async def test_a_delivery_is_tried_again_for_a_day_then_dead_and_can_be_repeated(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.statuses = [500, 302, 500, 200]
    receiver.headers = f"location: {receiver.url}\r\n"
    hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    await happen(owner, indexed(owner, "a"))
    await deliver_all(owner.api)
    [delivery] = await deliveries_of(owner, hook)
    assert (delivery["state"], delivery["attempts"], delivery["last_error"]) == ("waiting", 1, "refused")
    assert delivery["next_attempt_at"] > delivery["attempted_at"]
    await make_due(owner)
    await deliver_all(owner.api)
    [delivery] = await deliveries_of(owner, hook, state="waiting")
    # A redirect is not followed.
    assert (delivery["attempts"], delivery["last_status"], len(receiver.received)) == (2, 302, 2)
    await make_due(owner, give_up_at=datetime.now(UTC))
    await deliver_all(owner.api)
    [delivery] = await deliveries_of(owner, hook, state="dead")
    assert (delivery["attempts"], delivery["last_status"], delivery["next_attempt_at"]) == (3, 500, None)
    path = f"/webhooks/{hook['webhook_id']}/deliveries/{delivery['delivery_id']}/redeliver"
    assert (await owner.ok("POST", path))["state"] == "waiting"
    await deliver_all(owner.api)
    [delivery] = await deliveries_of(owner, hook)
    assert (delivery["state"], delivery["attempts"], delivery["last_status"]) == ("delivered", 1, 200)
    assert len(set(receiver.ids)) == 1
    for missing in (str(ObjectId()), "x"):
        path = f"/webhooks/{hook['webhook_id']}/deliveries/{missing}/redeliver"
        assert await owner.refused("POST", path) == (404, "not-found")


async def test_a_receiver_that_is_gone_disables_its_webhook_until_it_is_enabled_again(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.statuses = [410]
    hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    path = f"/webhooks/{hook['webhook_id']}"
    await happen(owner, *(indexed(owner, f"d{n}") for n in range(8)))
    await deliver_all(owner.api)
    shown = await owner.ok("GET", path)
    assert (shown["enabled"], shown["disabled_reason"]) == (False, "receiver-gone")
    assert shown["disabled_at"] > hook["created_at"]
    assert len(receiver.received) <= deliver.AT_ONCE
    found = await deliveries_of(owner, hook)
    assert {each["state"] for each in found} == {"dead"}
    assert {(each["last_status"], each["last_error"]) for each in found} == {
        (410, "refused"),
        (None, "webhook-disabled"),
    }
    await happen(owner, indexed(owner, "meanwhile"))
    receiver.statuses = [204]
    await owner.ok("PUT", path, json={"description": "moved"})
    assert (await owner.ok("GET", path))["disabled_reason"] == "receiver-gone"
    await list_all(owner.api)
    enabled = await owner.ok("PUT", path, json={"enabled": True})
    assert (enabled["enabled"], enabled["disabled_at"], enabled["disabled_reason"]) == (True, None, None)
    receiver.received.clear()
    await happen(owner, indexed(owner, "afterwards"))
    await deliver_all(owner.api)
    assert receiver.documents(hook["secret"]) == ["afterwards"]


async def test_an_answer_of_a_former_address_does_not_disable_a_webhook(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.statuses = [410, 204]
    hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    await happen(owner, indexed(owner, "a"))
    await list_all(owner.api)

    async def move() -> None:
        await owner.ok("PUT", f"/webhooks/{hook['webhook_id']}", json={"url": f"{receiver.url}/moved"})

    async with failpoints.during("webhook.after_send", move):
        await deliver_all(owner.api)
    assert (await owner.ok("GET", f"/webhooks/{hook['webhook_id']}"))["enabled"] is True
    await make_due(owner)
    await deliver_all(owner.api)
    [delivery] = await deliveries_of(owner, hook)
    assert (delivery["state"], delivery["attempts"]) == ("delivered", 2)


async def test_a_delivery_that_no_process_tries_is_dead_after_a_day(owner: OrganizationClient) -> None:
    hook = await owner.ok("POST", "/webhooks", json={"url": "http://127.0.0.1:1/"})
    await happen(owner, indexed(owner, "a"))
    await list_all(owner.api)
    later = datetime.now(UTC) + timedelta(hours=1)
    await make_due(owner, due_at=later, give_up_at=datetime.now(UTC) - timedelta(seconds=1))
    assert await deliveries.give_up_late(owner.database) == 1
    [delivery] = await deliveries_of(owner, hook, state="dead")
    assert delivery["attempts"] == 0


async def test_a_process_that_dies_before_it_has_recorded_a_delivery_delivers_it_again_under_the_same_id(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    await happen(owner, indexed(owner, "a"))
    await list_all(owner.api)

    async def die() -> None:
        raise ProcessDied

    key = WebhookKey(owner.organization_id, hook["webhook_id"])
    with pytest.raises(ProcessDied):
        async with failpoints.during("webhook.after_send", die):
            await owner.api.webhook_deliverer._serve(key, at_once=1)
    # No other process takes it before the claim has lapsed.
    await deliver_all(owner.api)
    assert len(receiver.received) == 1
    await make_due(owner)
    await deliver_all(owner.api)
    [delivery] = await deliveries_of(owner, hook)
    assert (delivery["state"], delivery["attempts"]) == ("delivered", 2)
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1


async def test_processes_that_deliver_at_the_same_time_deliver_each_event_once(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    await asyncio.gather(*(happen(owner, indexed(owner, f"d{n}")) for n in range(30)))
    await list_all(owner.api)
    await asyncio.gather(*(deliver_all(owner.api, another_process(owner)) for _ in range(3)))
    assert len(receiver.ids) == len(set(receiver.ids)) == 30


async def test_receivers_that_do_not_answer_hold_up_no_other(
    owner: OrganizationClient, receiver: Receiver, new_organization: NewOrganization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "QUICK_PLACES", 4)
    monkeypatch.setattr(deliver, "SLOW_PLACES", 2)
    monkeypatch.setattr("kb_api.webhooks.webhook_sender.ATTEMPT_WITHIN_S", 0.5)
    async with Receiver(is_silent=True).serve() as silent:
        others = [replace(await new_organization(), http=owner.http, api=owner.api) for _ in range(3)]
        for other in others:
            for _ in range(2):
                await other.ok("POST", "/webhooks", json={"url": silent.url})
        hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
        for n in range(10):
            await asyncio.gather(*(happen(each, indexed(each, f"d{n}")) for each in (*others, owner)))
        await list_all(owner.api)
        deliverer, stop = another_process(owner), asyncio.Event()
        running = asyncio.create_task(deliverer.run(stop))
        await until(lambda: len(receiver.received) == 10, what="all events of the receiver that answers")
        # Each of the others has used up its turn once, and most of theirs still wait.
        assert len(silent.received) <= 6 * deliver.AT_ONCE + 2 * deliver.SLOW_PLACES
        assert sorted(receiver.documents(hook["secret"])) == sorted(f"d{n}" for n in range(10))
        stop.set()
        await running


async def test_for_a_day_after_a_rotation_both_secrets_sign(owner: OrganizationClient, receiver: Receiver) -> None:
    hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    path = f"/webhooks/{hook['webhook_id']}"
    rotated = await owner.ok("POST", f"{path}/rotate-secret")
    assert rotated["former_secret_expires_at"] > hook["created_at"]
    await happen(owner, indexed(owner, "a"))
    await deliver_all(owner.api)
    for secret in (hook["secret"], rotated["secret"]):
        assert receiver.documents(secret) == ["a"]
    third = await owner.ok("POST", f"{path}/rotate-secret")
    rows = owner.database[webhook_rows.NAME]
    await rows.update_one({"_id": hook["webhook_id"]}, {"$set": {"secrets.1.expires_at": datetime.now(UTC)}})
    assert (await owner.ok("GET", path))["former_secret_expires_at"] is None
    receiver.received.clear()
    await happen(owner, indexed(owner, "b"))
    await deliver_all(owner.api)
    assert receiver.documents(third["secret"]) == ["b"]
    with pytest.raises(WebhookNotVerified):
        receiver.documents(rotated["secret"])


async def test_secrets_are_encrypted_again_when_the_key_has_changed(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    assert owner.api.key_ring is not None
    newer = KeyRing({"3": bytes([3]) * 32, **owner.api.key_ring.keys})
    await WebhookSecrets(newer).reseal(owner.database)
    webhook = await webhook_rows.get(owner.database, WebhookKey(owner.organization_id, hook["webhook_id"]))
    assert [each.sealed.key_id for each in webhook.secrets] == ["3"]
    only_new = WebhookSecrets(KeyRing({"3": newer.keys["3"]}))
    assert only_new.open(webhook, now=datetime.now(UTC)) == [hook["secret"]]


@pytest.mark.parametrize(
    "url",
    [
        "http://8.8.8.8/hook",
        "https://127.0.0.1/hook",
        "https://[::1]/hook",
        "https://169.254.169.254/latest",
        "https://localhost/hook",
        "https://user:password@8.8.8.8/hook",
        "https://8.8.8.8/hook#part",
        "ftp://8.8.8.8/hook",
        "https://",
        "nothing",
    ],
)
async def test_addresses_of_this_network_and_without_tls_are_refused(
    organization: OrganizationClient, url: str
) -> None:
    assert await organization.refused("POST", "/webhooks", json={"url": url}) == (422, "validation-error")


async def test_an_address_that_became_private_gets_nothing(owner: OrganizationClient, receiver: Receiver) -> None:
    """As after a change of the name's address: it is checked when the connection is opened."""
    hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    await happen(owner, indexed(owner, "a"))
    await list_all(owner.api)
    strict = WebhookSender(allow_private=False)
    deliverer = WebhookDeliverer(owner.database, sender=strict, secrets=owner.api.webhook_secrets)
    await deliver_all(owner.api, deliverer)
    await strict.close()
    [delivery] = await deliveries_of(owner, hook)
    assert (delivery["state"], delivery["last_error"]) == ("waiting", "name-not-resolved")
    assert receiver.received == []


async def test_a_disabled_webhook_gets_nothing_and_a_deleted_one_leaves_nothing(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    hook = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    path = f"/webhooks/{hook['webhook_id']}"
    await happen(owner, indexed(owner, "a"))
    await list_all(owner.api)
    assert (await owner.ok("PUT", path, json={"enabled": False, "kb_ids": None}))["enabled"] is False
    await happen(owner, indexed(owner, "b"))
    await deliver_all(owner.api)
    [delivery] = await deliveries_of(owner, hook)
    assert (delivery["state"], delivery["last_error"]) == ("dead", "webhook-disabled")
    assert receiver.received == []
    assert (await owner.ok("POST", f"{path}/test"))["delivered"] is True
    [(headers, body)] = receiver.received
    assert verify(body, headers, secrets=[hook["secret"]])["type"] == "webhook.test.v1"
    receiver.statuses = [500]
    tested = await owner.ok("POST", f"{path}/test")
    assert (tested["delivered"], tested["status"], tested["error"]) == (False, 500, "refused")
    await owner.ok("DELETE", path)
    assert await owner.refused("GET", path) == (404, "not-found")
    assert await owner.database[deliveries.NAME].count_documents({"webhook_id": hook["webhook_id"]}) == 0


async def test_webhooks_are_limited_in_number_and_name_what_exists(owner: OrganizationClient) -> None:
    assert await owner.refused("POST", "/webhooks", json={"url": "http://x/", "kb_ids": [KB]}) == (404, "not-found")
    for body in ({"url": None}, {"enabled": None}, {"url": "http://x y/"}, {"secret": "x"}):
        assert (await owner.refused("PUT", f"/webhooks/{ObjectId()}", json=body))[0] in {404, 422}
    for _ in range(owner.api.settings.max_webhooks):
        await owner.ok("POST", "/webhooks", json={"url": "http://127.0.0.1:1/"})
    assert await owner.refused("POST", "/webhooks", json={"url": "http://127.0.0.1:1/"}) == (409, "quota-exceeded")
    assert (await owner.ok("GET", "/webhooks"))["total_count"] == owner.api.settings.max_webhooks
