"""A receiver that answers 429 or 503 is left alone, by all processes, and loses no event because of it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from kb_api.webhooks import deliver, deliveries, webhook_rows
from kb_api.webhooks.deliver import WebhookDeliverer
from kb_api.webhooks.webhook_rows import WebhookKey
from kb_shared import failpoints
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_events import ProcessDied, happen, indexed, list_all
from tests.integration.kb_api.webhook_receiver import Receiver, another_process, deliver_all, deliveries_of, make_due
from tests.waiting import until

Act = Callable[[OrganizationClient, str], Awaitable[Any]]


async def create_webhook(owner: OrganizationClient, receiver: Receiver, *, events: int) -> dict[str, Any]:
    created: dict[str, Any] = await owner.ok("POST", "/webhooks", json={"url": receiver.url})
    await happen(owner, *(indexed(owner, f"d{n}") for n in range(events)))
    await list_all(owner.api)
    return created


async def deliver_by_all(deliverers: list[WebhookDeliverer], owner: OrganizationClient) -> None:
    await asyncio.gather(*(deliver_all(owner.api, each) for each in deliverers))


async def pass_the_pause(owner: OrganizationClient) -> None:
    """Let the time pass until the pauses of all receivers are over."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    await owner.database[webhook_rows.NAME].update_many(
        {"paused_until": {"$ne": None}}, {"$set": {"paused_until": past}}
    )
    await owner.database[deliveries.NAME].update_many({"waiting": {"$exists": True}}, {"$set": {"due_at": past}})


async def pause_of(owner: OrganizationClient, hook: dict[str, Any]) -> datetime | None:
    shown = (await owner.ok("GET", f"/webhooks/{hook['webhook_id']}"))["paused_until"]
    return None if shown is None else datetime.fromisoformat(shown)


def in_half_an_hour() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(minutes=30), usegmt=True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("retry_after", "shortest_s", "longest_s"),
    [
        ("1800", 1800, 1800 * 1.2),
        ("date", 1790, 1800 * 1.2),
        ("1e9", 3600, 3600 * 1.2),
        ("0", 5, 6),
        ("-5", 5, 6),
        ("Fri, 99999999999999999999999 Jan 2030 12:00:00 GMT", 5, 6),
        (None, 5, 6),
    ],
)
async def test_a_receiver_is_left_alone_for_as_long_as_it_asks(
    owner: OrganizationClient,
    receiver: Receiver,
    *,
    status: int,
    retry_after: str | None,
    shortest_s: float,
    longest_s: float,
) -> None:
    receiver.statuses = [status]
    asked = in_half_an_hour() if retry_after == "date" else retry_after
    receiver.headers = "" if asked is None else f"retry-after: {asked}\r\n"
    hook = await create_webhook(owner, receiver, events=1)
    before = datetime.now(UTC)
    await deliver_all(owner.api)
    paused_until = await pause_of(owner, hook)
    # A short pause may be over by now.
    row = await owner.database[webhook_rows.NAME].find_one({"_id": hook["webhook_id"]})
    assert row is not None
    assert paused_until in {None, row["paused_until"]}
    assert before + timedelta(seconds=shortest_s) <= row["paused_until"] + timedelta(milliseconds=1)
    assert row["paused_until"] <= datetime.now(UTC) + timedelta(seconds=longest_s)
    [delivery] = await deliveries_of(owner, hook)
    assert (delivery["state"], delivery["last_status"], delivery["last_error"]) == ("waiting", status, "put-off")


async def test_during_a_pause_no_process_sends_any_event(owner: OrganizationClient, receiver: Receiver) -> None:
    receiver.statuses = [204] * 10 + [429]
    receiver.headers = "retry-after: 1800\r\n"
    hook = await create_webhook(owner, receiver, events=60)
    processes = [another_process(owner) for _ in range(2)]
    await deliver_by_all(processes, owner)
    sent_before = len(receiver.received)
    # Those that were on their way when the receiver asked for a pause, of each process.
    assert 11 <= sent_before <= 10 + 2 * deliver.AT_ONCE
    await happen(owner, *(indexed(owner, f"later{n}") for n in range(5)))
    await list_all(owner.api)
    await deliver_by_all([*processes, another_process(owner)], owner)
    await make_due(owner)
    await deliver_by_all([*processes, another_process(owner)], owner)
    assert len(receiver.received) == sent_before
    paused_until = await pause_of(owner, hook)
    assert paused_until is not None
    waiting = await deliveries_of(owner, hook, state="waiting")
    assert {datetime.fromisoformat(each["next_attempt_at"]) for each in waiting} == {paused_until}
    assert {each["attempts"] for each in waiting} == {0}


async def test_a_process_in_the_middle_of_its_turn_stops_when_another_one_was_asked_for_a_pause(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.answers = asyncio.Event()
    hook = await create_webhook(owner, receiver, events=20)
    delivering = asyncio.create_task(deliver_all(owner.api, another_process(owner)))
    await until(lambda: len(receiver.received) == deliver.AT_ONCE, what="the first requests")
    webhook = await webhook_rows.get(owner.database, WebhookKey(owner.organization_id, hook["webhook_id"]))
    await webhook_rows.pause(owner.database, webhook, until=datetime.now(UTC) + timedelta(minutes=30))
    receiver.answers.set()
    await delivering
    assert len(receiver.received) == deliver.AT_ONCE
    # Answers to requests from before the pause do not end it.
    assert await pause_of(owner, hook) is not None


async def test_after_a_pause_one_attempt_is_made_by_one_process_and_the_others_follow_once_it_is_taken(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.statuses = [429]
    receiver.headers = "retry-after: 1800\r\n"
    hook = await create_webhook(owner, receiver, events=20)
    processes = [another_process(owner) for _ in range(3)]
    await deliver_by_all(processes, owner)
    for _ in range(2):
        receiver.received.clear()
        await pass_the_pause(owner)
        assert await pause_of(owner, hook) is None
        await deliver_by_all(processes, owner)
        assert len(receiver.received) == 1
        assert await pause_of(owner, hook) is not None
    receiver.statuses, receiver.answers = [204], asyncio.Event()
    receiver.received.clear()
    await pass_the_pause(owner)
    delivering = asyncio.create_task(deliver_by_all(processes, owner))
    await until(lambda: len(receiver.received) == 1, what="the attempt after the pause")
    await deliver_by_all([another_process(owner)], owner)
    assert len(receiver.received) == 1
    receiver.answers.set()
    await delivering
    await deliver_by_all(processes, owner)
    assert len(receiver.received) == len(set(receiver.ids)) == 20
    assert {each["attempts"] for each in await deliveries_of(owner, hook)} == {1}


async def test_without_retry_after_each_pause_is_longer_until_the_receiver_takes_an_event(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.statuses = [503, 503, 503, 204, 503]
    hook = await create_webhook(owner, receiver, events=1)
    pauses = []
    for n in range(5):
        if n == 3:
            await happen(owner, indexed(owner, "next"))
        await pass_the_pause(owner)
        await deliver_all(owner.api)
        row = await owner.database[webhook_rows.NAME].find_one({"_id": hook["webhook_id"]})
        assert row is not None
        pauses.append(row["pauses"])
    assert pauses[:3] == [1, 2, 3]
    # The fourth was taken, and another event was put off afterwards.
    assert pauses[3:] == [1, 2]


async def test_an_answer_that_is_no_request_for_a_pause_ends_it(owner: OrganizationClient, receiver: Receiver) -> None:
    receiver.statuses = [429, 500]
    receiver.headers = "retry-after: 1800\r\n"
    hook = await create_webhook(owner, receiver, events=1)
    await deliver_all(owner.api)
    await pass_the_pause(owner)
    await deliver_all(owner.api)
    [delivery] = await deliveries_of(owner, hook)
    assert (delivery["attempts"], delivery["last_status"], delivery["last_error"]) == (1, 500, "refused")
    row = await owner.database[webhook_rows.NAME].find_one({"_id": hook["webhook_id"]})
    assert row is not None
    assert (row["paused_until"], row["pauses"]) == (None, 0)


async def test_no_event_is_given_up_while_its_receiver_pauses_or_right_afterwards(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.statuses = [429]
    receiver.headers = "retry-after: 1800\r\n"
    hook = await create_webhook(owner, receiver, events=8)
    in_a_minute = datetime.now(UTC) + timedelta(minutes=1)
    await make_due(owner, give_up_at=in_a_minute, expires_at=in_a_minute + deliveries.KEPT)
    await deliver_all(owner.api)
    paused_until = await pause_of(owner, hook)
    assert paused_until is not None
    rows = await owner.database[deliveries.NAME].find({"webhook_id": hook["webhook_id"]}).to_list()
    assert {row["give_up_at"] for row in rows} == {paused_until + deliveries.AFTER_PAUSE}
    receiver.statuses = [204]
    await pass_the_pause(owner)
    await deliver_all(owner.api)
    assert {each["state"] for each in await deliveries_of(owner, hook)} == {"delivered"}


async def test_a_receiver_that_always_asks_for_a_pause_keeps_no_event_for_ever(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.statuses = [429]
    receiver.headers = "retry-after: 1800\r\n"
    hook = await create_webhook(owner, receiver, events=2)
    now = datetime.now(UTC)
    first_end = now - deliveries.PAUSED_FOR + timedelta(minutes=20)
    await make_due(owner, give_up_at=now + timedelta(minutes=10), expires_at=first_end + deliveries.KEPT)
    await deliver_all(owner.api)
    rows = await owner.database[deliveries.NAME].find({"webhook_id": hook["webhook_id"]}).to_list()
    last_end = first_end + deliveries.PAUSED_FOR
    assert {abs(row["give_up_at"] - last_end) < timedelta(milliseconds=2) for row in rows} == {True}


async def test_a_process_that_dies_in_the_attempt_after_a_pause_lets_another_one_make_it_later(
    owner: OrganizationClient, receiver: Receiver
) -> None:
    receiver.statuses = [429, 204]
    receiver.headers = "retry-after: 1800\r\n"
    hook = await create_webhook(owner, receiver, events=1)
    await deliver_all(owner.api)
    await pass_the_pause(owner)
    webhook = await webhook_rows.get(owner.database, WebhookKey(owner.organization_id, hook["webhook_id"]))

    async def die() -> None:
        raise ProcessDied

    with pytest.raises(ProcessDied):
        async with failpoints.during("webhook.after_send", die):
            await another_process(owner)._serve(webhook.key, at_once=1)
    receiver.received.clear()
    await make_due(owner)
    await deliver_by_all([another_process(owner)], owner)
    assert receiver.received == []
    past = datetime.now(UTC) - timedelta(seconds=1)
    await owner.database[webhook_rows.NAME].update_one({"_id": webhook.webhook_id}, {"$set": {"probed_until": past}})
    await deliver_by_all([another_process(owner), another_process(owner)], owner)
    assert len(receiver.received) == 1


async def enable(owner: OrganizationClient, path: str) -> Any:
    return await owner.ok("PUT", path, json={"enabled": True})


async def move(owner: OrganizationClient, path: str) -> Any:
    url = (await owner.ok("GET", path))["url"]
    return await owner.ok("PUT", path, json={"url": f"{url}/moved"})


async def describe(owner: OrganizationClient, path: str) -> Any:
    url = (await owner.ok("GET", path))["url"]
    return await owner.ok("PUT", path, json={"url": url, "description": "the same address"})


@pytest.mark.parametrize(("act", "ends_pause"), [(enable, True), (move, True), (describe, False)])
async def test_a_person_ends_a_pause_by_enabling_the_webhook_or_with_a_new_address(
    owner: OrganizationClient, receiver: Receiver, act: Act, *, ends_pause: bool
) -> None:
    receiver.statuses = [429, 204]
    receiver.headers = "retry-after: 1800\r\n"
    hook = await create_webhook(owner, receiver, events=1)
    await deliver_all(owner.api)
    changed = await act(owner, f"/webhooks/{hook['webhook_id']}")
    assert (changed["paused_until"] is None) is ends_pause
    await make_due(owner)
    await deliver_all(owner.api)
    assert len(receiver.received) == 1 + ends_pause


async def test_an_answer_of_a_former_address_pauses_nothing(owner: OrganizationClient, receiver: Receiver) -> None:
    receiver.statuses = [429]
    receiver.headers = "retry-after: 1800\r\n"
    hook = await create_webhook(owner, receiver, events=1)

    async def leave() -> None:
        await move(owner, f"/webhooks/{hook['webhook_id']}")

    async with failpoints.during("webhook.after_send", leave):
        await deliver_all(owner.api)
    assert await pause_of(owner, hook) is None
