"""Checks of messages that could not be handled, and of those that could not be sent."""

from collections import Counter

from bson import ObjectId

from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import (
    BROKEN,
    REFUSED,
    StockedOrganization,
)


def shown_letter(row: Row) -> Row:
    trace_id = row["traceparent"].split("-")[1] if row["traceparent"] else None
    return {**row, "dead_letter_id": row["_id"], "trace_id": trace_id}


@checks("dead_letters.list")
async def check_list_dead_letters(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.dead_letters.list(limit=100), lambda: organization.rows("dead_letters")
    )
    assert answer.total_count == len(rows) > 0
    newest_first = sorted(rows, key=lambda row: (-row["filed_at"].timestamp(), row["_id"]))
    for letter, row in zip(answer.dead_letters, newest_first, strict=True):
        assert_shows(letter, shown_letter(row))


@checks("dead_letters.redrive")
async def check_redrive_dead_letter(organization: StockedOrganization) -> None:
    [letter] = await organization.rows("dead_letters", document_id=BROKEN, redriven_from=None)
    answer = await organization.client.dead_letters.redrive(letter["_id"])
    row = await organization.row("dead_letters", _id=letter["_id"])
    assert_shows(answer, shown_letter(row))
    assert_holds(row, redriven_by=organization.key_id)
    # It is as unreadable as before.
    again = await organization.until_row("dead_letters", redriven_from=letter["_id"])
    assert_holds(again, document_id=BROKEN, reason=letter["reason"], size_bytes=letter["size_bytes"])


async def new_letter(organization: StockedOrganization, document_id: str) -> Row:
    key = f"{organization.organization_id}/{document_id}"
    await organization.running.send_malformed(b"not JSON", key=key.encode())
    return await organization.until_row("dead_letters", document_id=document_id, redriven_from=None)


@checks("dead_letters.get")
async def check_get_dead_letter(organization: StockedOrganization) -> None:
    [letter] = await organization.rows("dead_letters", document_id=BROKEN, redriven_from=None)
    answer, row = await undisturbed(
        lambda: organization.client.dead_letters.get(letter["_id"]),
        lambda: organization.row("dead_letters", _id=letter["_id"]),
    )
    assert_shows(answer, shown_letter(row))


@checks("dead_letters.count")
async def check_count_dead_letters(organization: StockedOrganization) -> None:
    await new_letter(organization, "counted")
    answer, rows = await undisturbed(
        organization.client.dead_letters.count,
        lambda: organization.rows("dead_letters", redriven_at=None, discarded_at=None),
    )
    reasons = Counter(row["reason"] for row in rows)
    assert {each.reason: each.count for each in answer.reasons} == reasons
    assert (answer.open_count, answer.is_exact) == (len(rows), True)
    [reason] = [each for each in answer.reasons if each.reason == rows[0]["reason"]]
    assert reason.oldest_at == min(row["filed_at"] for row in rows if row["reason"] == reason.reason)


@checks("dead_letters.redrive_many")
async def check_redrive_dead_letters(organization: StockedOrganization) -> None:
    letters = [await new_letter(organization, name) for name in ("broken-1", "broken-2")]
    answer = await organization.client.dead_letters.redrive_many(
        topic=letters[0]["topic"], dead_letter_ids=[letter["_id"] for letter in letters]
    )
    assert (answer.redriven_count, answer.too_large_count, answer.are_more_left) == (2, 0, False)
    for letter in letters:
        row = await organization.row("dead_letters", _id=letter["_id"])
        assert_holds(row, redriven_by=organization.key_id)
        await organization.until_row("dead_letters", redriven_from=letter["_id"])


@checks("dead_letters.discard")
async def check_discard_dead_letter(organization: StockedOrganization) -> None:
    letter = await new_letter(organization, "discarded")
    answer = await organization.client.dead_letters.discard(letter["_id"])
    row = await organization.row("dead_letters", _id=letter["_id"])
    assert_shows(answer, shown_letter(row))
    assert_holds(row, discarded_by=organization.key_id, redriven_at=None)


@checks("dead_letters.discard_many")
async def check_discard_dead_letters(organization: StockedOrganization) -> None:
    letters = [await new_letter(organization, name) for name in ("unwanted-1", "unwanted-2")]
    answer = await organization.client.dead_letters.discard_many(dead_letter_ids=[each["_id"] for each in letters])
    assert (answer.discarded_count, answer.are_more_left) == (2, False)
    for letter in letters:
        row = await organization.row("dead_letters", _id=letter["_id"])
        assert_holds(row, discarded_by=organization.key_id, redriven_at=None)


@checks("unsendable_messages.list")
async def check_list_unsendable_messages(organization: StockedOrganization) -> None:
    answer = await organization.client.unsendable_messages.list(limit=100)
    rows = await organization.rows("outbox", unsendable_at={"$exists": True})
    assert answer.total_count == len(rows)
    for message, row in zip(answer.unsendable_messages, rows, strict=True):
        assert_shows(message, row, names={"message_id": "_id"})


@checks("unsendable_messages.redrive")
async def check_redrive_unsendable_message(organization: StockedOrganization) -> None:
    row = await organization.row("outbox", document_id=REFUSED)
    answer = await organization.client.unsendable_messages.redrive(str(row["_id"]))
    redriven = await organization.row("outbox", _id=ObjectId(row["_id"]))
    assert_shows(answer, redriven, names={"message_id": "_id"})
    assert_holds(redriven, redriven_by=organization.key_id)
    await organization.until_row("outbox", _id=row["_id"], sent_at={"$type": "date"})
    await organization.until_row("documents", document_id=REFUSED, alive=True)
