"""A commit whose outcome is not known was done here: work that is repeated for it has no second effect."""

from collections import Counter
from contextlib import AsyncExitStack

import pytest

from kb_contracts.outcomes import DocumentIndexed, DocumentIndexFailed, DocumentRemoved, SpuCharged
from kb_shared.errors import TransientError
from kb_shared.failpoints import during
from kb_shared.mongo import outbox
from tests.integration.failing_commands import UNKNOWN_WRITE_CONCERN, unacknowledged
from tests.integration.indexer.support import LANES, Replica, Tenant, text_of


async def announced(tenant: Tenant) -> Counter[str]:
    """Count the messages about the tenant in the outbox by type."""
    rows = tenant.database[outbox.NAME].find({"key": {"$regex": f"^{tenant.organization_id}"}}, {"value": 1})
    types = (DocumentIndexed, DocumentRemoved, DocumentIndexFailed, SpuCharged)
    return Counter([kind.TYPE async for row in rows for kind in types if kind.TYPE.encode() in row["value"]])


class NextCommit:
    """Leaves the outcome of the next commit unknown, once."""

    def __init__(self, tenant: Tenant, stack: AsyncExitStack) -> None:
        self._client = tenant.database.client
        self._stack = stack
        self._used = False

    async def __call__(self) -> None:
        if not self._used:
            self._used = True
            failing = unacknowledged(self._client, "commitTransaction", code=UNKNOWN_WRITE_CONCERN)
            await self._stack.enter_async_context(failing)


@pytest.mark.parametrize("failpoint", ["embed.before_store_commit", "swap.before_commit"])
async def test_a_document_is_indexed_charged_and_announced_once(
    tenant: Tenant, indexer: Replica, failpoint: str
) -> None:
    kb = await tenant.create_kb("a")
    text = text_of(1, 2, 3)
    async with AsyncExitStack() as stack, during(failpoint, NextCommit(tenant, stack)):
        await indexer.publish(tenant.ocr("d", text))
        await indexer.handle_commands()
    await tenant.make_due()
    await indexer.work()
    await tenant.assert_holds(kb, {"d": text})
    await tenant.assert_settled()
    assert await tenant.spus() == 3
    assert await announced(tenant) == {DocumentIndexed.TYPE: 1, SpuCharged.TYPE: 1}


async def test_a_document_is_removed_and_announced_once(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(1)))
    await indexer.work()
    async with AsyncExitStack() as stack, during("removal.before_commit", NextCommit(tenant, stack)):
        await indexer.publish(tenant.deleted("d", revision=2))
        await indexer.handle_commands()
    await tenant.make_due()
    await indexer.work()
    await tenant.assert_holds(kb, {})
    await tenant.assert_settled()
    assert (await announced(tenant))[DocumentRemoved.TYPE] == 1


async def test_an_unchanged_text_is_announced_once(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    text = text_of(1)
    await indexer.publish(tenant.ocr("d", text))
    await indexer.work()
    again = tenant.ocr("d", text, revision=2)
    async with unacknowledged(tenant.database.client, "commitTransaction", code=UNKNOWN_WRITE_CONCERN):
        with pytest.raises(TransientError):
            await indexer.publish(again)
    # The consumer hands it over again.
    await indexer.publish(again)
    await indexer.work()
    await tenant.assert_holds(kb, {"d": text})
    assert (await announced(tenant))[DocumentIndexed.TYPE] == 2


async def test_a_failed_document_is_announced_once(tenant: Tenant, indexer: Replica) -> None:
    await tenant.create_kb("a", max_chunks=1)
    await indexer.publish(tenant.ocr("d", text_of(1, 2, 3)))
    [message] = indexer.producer.sent_to(*LANES)
    indexer.producer.sent.append(message)
    async with unacknowledged(tenant.database.client, "commitTransaction", code=UNKNOWN_WRITE_CONCERN):
        with pytest.raises(TransientError):
            await indexer.handle_commands()
    # The consumer hands it over again.
    indexer.producer.sent.append(message)
    await indexer.handle_commands()
    [job] = (await tenant.jobs()).values()
    assert job.state == "failed"
    assert (await announced(tenant))[DocumentIndexFailed.TYPE] == 1
