"""Requests work on documents: stores a job first, then publishes its command, or leaves it in the queue."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from kb_contracts import topics
from kb_contracts.cloudevents import CONTENT_TYPE, encode
from kb_contracts.commands import SyncDocument, key_of
from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.failpoints import reach
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import IndexJob, Opened, SyncRequest
from kb_shared.mongo.keys import MembershipKey
from kb_shared.observability import spans, tracing

NOTE_AFTER_S: Final = 15.0
"""Age at which a published command is noted. Most jobs are finished by then and need no further write."""


class IndexRequests:
    """Stores jobs and publishes their commands. After a crash the sweeper publishes the rest."""

    def __init__(self, database: Database, producer: Producer, *, topic_prefix: str, source: str) -> None:
        self._database = database
        self._producer = producer
        self._source = source
        self._live = topic_prefix + topics.INDEX_REQUESTS.name
        self._bulk = topic_prefix + topics.INDEX_BACKFILL.name
        self._opened: BatchLoader[SyncRequest, Opened] = BatchLoader(self._open)
        self._published: deque[tuple[float, Opened]] = deque()

    async def request(
        self,
        commands: Collection[SyncDocument],
        *,
        occurred_at: datetime | None = None,
        bulk: bool = False,
        queued: bool = False,
        backfill_id: str | None = None,
    ) -> None:
        """Return once every command is in MongoDB and acknowledged by the broker.

        What a crash leaves unpublished a sweeper publishes after `PUBLISH_GRACE`, so the process has to call
        `note_published` before that. It is not enough that an event is delivered again and asks again: MongoDB may
        carry out the last write of a process some seconds after the process died, and open a job that its successor
        has already done.

        Args:
            commands: of one organization.
            occurred_at: time of the event, if one is the cause. Time to searchable is measured from it.
            bulk: on the bulk lane.
            queued: whether the commands are published later, when it is the turn of their KB.
            backfill_id: of the backfill that requests them, whose progress they count for.
        """
        if not commands:
            return
        with tracing.span(spans.REQUEST_JOBS, {"kb.jobs": len(commands), "kb.queued": queued, "kb.bulk": bulk}):
            await self._request(commands, occurred_at, bulk=bulk, queued=queued, backfill_id=backfill_id)

    async def _request(
        self,
        commands: Collection[SyncDocument],
        occurred_at: datetime | None,
        *,
        bulk: bool,
        queued: bool,
        backfill_id: str | None,
    ) -> None:
        request = SyncRequest(commands, tracing.current(), occurred_at or datetime.now(UTC), backfill_id, queued)
        opened = await self._opened(request)
        await reach("backfill.after_jobs" if bulk else "fan_out.after_jobs")
        if queued:
            return
        await self.publish(commands, bulk=bulk)
        await reach("backfill.after_publish" if bulk else "fan_out.after_publish")
        if opened:
            self._published.append((monotonic(), opened))

    async def note_published(self, *, after_s: float = NOTE_AFTER_S) -> None:
        """Give the commands that were published at least `after_s` ago time to be claimed, if they are not claimed yet.

        If this fails, the sweeper publishes the commands once more.
        """
        opened: dict[MembershipKey, str] = {}
        while self._published and self._published[0][0] <= monotonic() - after_s:
            opened |= self._published.popleft()[1]
        await index_jobs.note_published(self._database, opened)

    async def _open(self, requests: Sequence[SyncRequest]) -> Mapping[SyncRequest, Opened]:
        return await index_jobs.request(self._database, requests)

    async def publish(self, commands: Collection[SyncDocument], *, bulk: bool = False) -> None:
        """Send commands whose jobs are stored already."""
        traceparent = tracing.current()
        await self._producer.send_all([self._message(command, traceparent, bulk=bulk) for command in commands])

    async def publish_jobs(self, jobs: Collection[IndexJob], *, bulk: bool) -> None:
        """Send the commands of jobs again, or for the first time, each in the trace of its job."""
        await self._producer.send_all(
            [self._message(job.command(), tracing.continued(job.traceparent), bulk=bulk) for job in jobs]
        )

    def _message(self, command: SyncDocument, traceparent: str, *, bulk: bool) -> ProducerMessage:
        headers = {"content-type": CONTENT_TYPE, tracing.HEADER: traceparent}
        topic = self._bulk if bulk else self._live
        return ProducerMessage(topic, key_of(command), encode(command, source=self._source), headers)
