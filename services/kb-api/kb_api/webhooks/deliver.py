"""Delivers events to webhooks. A receiver that is slow or does not answer holds up no other.

Webhooks are served in two lanes, each with its own limit. One whose last attempt failed or was slow is in the slow
lane, one attempt at a time, until an attempt succeeds quickly. Within a lane, those that were served least recently
come first, and an organization has a part of the places.

A receiver that answers 429 or 503 is paused, in its row, so that no process sends it anything. After the pause one
process makes one attempt, and all go on if it was not put off again.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from time import monotonic
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_api.webhooks import deliveries, webhook_rows
from kb_api.webhooks.deliveries import DueWebhook, WebhookDelivery
from kb_api.webhooks.retry_times import next_attempt, pause_of_receiver
from kb_api.webhooks.webhook_rows import Webhook, WebhookKey
from kb_api.webhooks.webhook_secrets import WebhookSecrets
from kb_api.webhooks.webhook_sender import AttemptOutcome, WebhookSender
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import TransientError
from kb_shared.failpoints import reach
from kb_shared.mongo.database import Database
from kb_shared.observability.log_limit import LogLimit
from kb_shared.observability.metrics import WEBHOOK_ATTEMPTS, WEBHOOK_DEAD
from kb_shared.secrets.key_ring import Unreadable

QUICK_PLACES: Final = 32
SLOW_PLACES: Final = 16
PLACES_OF_ORGANIZATION: Final = 4
"""Limit of the webhooks of an organization that are served at the same time in one lane."""
AT_ONCE: Final = 4
"""Number of requests at the same time to one receiver that answers quickly."""
IN_TURN: Final = 100
"""Number of deliveries after which another webhook has its turn."""
SLOW_S: Final = 2.0
"""Duration of an attempt from which a receiver is slow."""
_PAUSE_S: Final = 0.2
_GIVE_UP_EVERY_S: Final = 60.0
RECEIVER_GONE: Final = "receiver-gone"
_LAST_ATTEMPTS_S: Final = 5.0
"""Time for attempts that are being made when the process stops."""

log = structlog.get_logger()


class WebhookDeliverer:
    """Makes the attempts that are due; one per process. Processes share them by claims."""

    def __init__(self, database: Database, *, sender: WebhookSender, secrets: WebhookSecrets) -> None:
        self.signal = WorkSignal()
        self._database = database
        self._sender = sender
        self._secrets = secrets
        self._serving: dict[WebhookKey, asyncio.Task[None]] = {}
        self._slow: set[WebhookKey] = set()
        self._in_lane: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
        """Number of webhooks that are being served, by lane (True: the slow one) and organization."""
        self._served_at: dict[WebhookKey, float] = {}
        self._gave_up_at = 0.0
        self._pause = PollPause(self.signal, shortest_s=_PAUSE_S)
        self._limit = LogLimit()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop`. Attempts that are then cut off are made again a minute later."""
        stopping = asyncio.create_task(self._wake_at(stop))
        try:
            while not stop.is_set():
                began = monotonic()
                found = await self._serve_some()
                if not stop.is_set():
                    await self._pause.after_poll(found=found, poll_took_s=monotonic() - began)
            if self._serving:
                await asyncio.wait(self._serving.values(), timeout=_LAST_ATTEMPTS_S)
        finally:
            stopping.cancel()
            tasks = [stopping, *self._serving.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.signal.wake()

    async def _serve_some(self) -> bool:
        """Begin to serve webhooks that are due and have a place; return whether any are due."""
        try:
            await self._give_up_late()
            paused = await webhook_rows.find_paused(self._database)
            due = [
                each for each in await deliveries.find_due_webhooks(self._database) if each.key.webhook_id not in paused
            ]
        except (PyMongoError, TransientError) as error:
            self._log_interruption(error)
            return False
        self._forget_others(due)
        for each in sorted(due, key=lambda each: self._served_at.get(each.key, 0.0)):
            if each.key not in self._serving and self._has_place(each.key):
                self._begin(each.key)
        return bool(due)

    async def _give_up_late(self) -> None:
        if monotonic() - self._gave_up_at >= _GIVE_UP_EVERY_S:
            self._gave_up_at = monotonic()
            self._count_dead(await deliveries.give_up_late(self._database))

    def _forget_others(self, due: Sequence[DueWebhook]) -> None:
        known = {each.key for each in due} | self._serving.keys()
        # One that fails is not due between its attempts: it is forgotten, and costs one attempt in the quick lane.
        self._served_at = {key: at for key, at in self._served_at.items() if key in known}
        if len(self._slow) > SLOW_PLACES * 100:
            self._slow &= known

    def _has_place(self, key: WebhookKey) -> bool:
        is_slow = key in self._slow
        served = self._in_lane[is_slow]
        places = SLOW_PLACES if is_slow else QUICK_PLACES
        return served.total() < places and served[key.organization_id] < PLACES_OF_ORGANIZATION

    def _begin(self, key: WebhookKey) -> None:
        is_slow = key in self._slow
        self._in_lane[is_slow][key.organization_id] += 1
        task = asyncio.create_task(self._serve(key, at_once=1 if is_slow else AT_ONCE))
        self._serving[key] = task

        def end(_: "asyncio.Task[None]") -> None:
            del self._serving[key]
            self._served_at[key] = monotonic()
            self._in_lane[is_slow] -= Counter([key.organization_id])
            # There is a place for another one.
            self.signal.wake()

        task.add_done_callback(end)

    async def _serve(self, key: WebhookKey, *, at_once: int) -> None:
        """Make attempts for a webhook until nothing is due, it fails, or others have their turn."""
        try:
            webhook = await webhook_rows.find(self._database, key)
            if webhook is None:
                await deliveries.delete_all(self._database, key)
            elif not webhook.enabled:
                self._count_dead(await deliveries.give_up_all(self._database, key, error="webhook-disabled"))
            elif webhook.paused_until is not None:
                await self._probe(webhook)
            else:
                secrets_in_use = self._secrets.open(webhook, now=datetime.now(UTC))
                await run_all_or_cancel(self._attempt_some(webhook, secrets_in_use) for _ in range(at_once))
        except (PyMongoError, TransientError) as error:
            self._log_interruption(error)
        except Unreadable:
            if self._limit.admit(f"unreadable {key.webhook_id}") is not None:
                log.warning("webhook.secret_unreadable", webhook_id=key.webhook_id, remedy="rotate its secret")

    async def _probe(self, webhook: Webhook) -> None:
        """Make one attempt after a pause, unless it lasts, or another process makes it."""
        secrets_in_use = self._secrets.open(webhook, now=datetime.now(UTC))
        probe = await webhook_rows.begin_probe(self._database, webhook.key)
        if probe is None:
            return
        outcome = await self._attempt(webhook, secrets_in_use)
        is_over = outcome is not None and not outcome.asks_for_pause
        await webhook_rows.end_probe(self._database, webhook.key, probe=probe, is_over=is_over)

    async def _attempt(self, webhook: Webhook, secrets_in_use: Sequence[str]) -> AttemptOutcome | None:
        """Make an attempt and record its outcome; return None if no delivery is due."""
        delivery = await deliveries.claim(self._database, webhook.key)
        if delivery is None:
            return None
        outcome = await self._sender.send(
            webhook.url, delivery.body.encode(), message_id=delivery.event_id, secrets_in_use=secrets_in_use
        )
        await reach("webhook.after_send")
        await self._record(webhook, delivery, outcome)
        return outcome

    async def _attempt_some(self, webhook: Webhook, secrets_in_use: Sequence[str]) -> None:
        for _ in range(IN_TURN // AT_ONCE):
            was_slow = webhook.key in self._slow
            # Another process may have been asked for a pause.
            if await webhook_rows.is_paused(self._database, webhook.key):
                return
            outcome = await self._attempt(webhook, secrets_in_use)
            if outcome is None:
                return
            if outcome.error is not None or outcome.duration_s > SLOW_S:
                self._slow.add(webhook.key)
                return
            self._slow.discard(webhook.key)
            if was_slow:
                # From now on in the quick lane.
                return

    async def _record(self, webhook: Webhook, delivery: WebhookDelivery, outcome: AttemptOutcome) -> None:
        if outcome.error is None:
            WEBHOOK_ATTEMPTS.labels("delivered").inc()
            await deliveries.finish(self._database, delivery, status=outcome.status or 0)
            return
        WEBHOOK_ATTEMPTS.labels(outcome.error).inc()
        if outcome.asks_for_pause:
            paused_until = await self._pause_receiver(webhook, outcome)
            if outcome.retry_after_s is not None:
                await deliveries.put_off(
                    self._database, delivery, status=outcome.status, error=outcome.error, again_at=paused_until
                )
                return
            await deliveries.fail(
                self._database, delivery, status=outcome.status, error=outcome.error, again_at=paused_until
            )
            return
        # Before the delivery: after a crash here, the deliveries that wait are given up because it is disabled.
        is_gone = outcome.status == HTTPStatus.GONE and await self._disable(webhook)
        again_at = None if is_gone else _next_attempt(delivery)
        await deliveries.fail(self._database, delivery, status=outcome.status, error=outcome.error, again_at=again_at)
        if again_at is None:
            self._count_dead(1)

    async def _pause_receiver(self, webhook: Webhook, outcome: AttemptOutcome) -> datetime:
        """Send nothing to a receiver for a time, in no process; return its end."""
        until = datetime.now(UTC) + pause_of_receiver(
            pauses=webhook.pauses,
            chance=random.random(),  # noqa: S311  # jitter, no secret
            asked_s=outcome.retry_after_s,
        )
        # Before the pause: after a crash here, nothing is given up during the next one.
        await deliveries.keep_through_pause(self._database, webhook.key, until=until)
        await webhook_rows.pause(self._database, webhook, until=until)
        log.info("webhook.paused", webhook_id=webhook.webhook_id, status=outcome.status, until=until.isoformat())
        return until

    async def _disable(self, webhook: Webhook) -> bool:
        """Disable a webhook whose receiver is gone; return False if it has another address by now."""
        before = await webhook_rows.disable(self._database, webhook, reason=RECEIVER_GONE)
        if before is not None and before.enabled:
            log.info("webhook.disabled", webhook_id=webhook.webhook_id, reason=RECEIVER_GONE)
        return before is not None

    def _count_dead(self, count: int) -> None:
        if count:
            WEBHOOK_DEAD.inc(count)
            log.info("webhook.deliveries_given_up", deliveries=count)

    def _log_interruption(self, error: Exception) -> None:
        reason = type(error).__name__
        if (left_out := self._limit.admit(reason)) is not None:
            log.warning("webhooks.interrupted", error=reason, left_out=left_out)


def _next_attempt(delivery: WebhookDelivery) -> datetime | None:
    return next_attempt(
        now=datetime.now(UTC),
        attempts=delivery.attempts,
        give_up_at=delivery.give_up_at,
        chance=random.random(),  # noqa: S311  # jitter, no secret
    )
