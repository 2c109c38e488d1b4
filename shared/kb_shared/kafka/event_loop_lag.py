"""Measures how late the event loop is. CPU work that blocks the loop stops heartbeats, which ends group membership."""

import asyncio
import time
from collections import deque

from kb_shared.observability import metrics

INTERVAL_S = 0.5
REMEMBERED = 30


async def watch_event_loop() -> None:
    """Export the greatest delay of the last 15 s, so that the next scrape sees each spike. Runs until cancelled."""
    delays: deque[float] = deque(maxlen=REMEMBERED)
    while True:
        began = time.monotonic()
        await asyncio.sleep(INTERVAL_S)
        delays.append(max(0.0, time.monotonic() - began - INTERVAL_S))
        metrics.EVENT_LOOP_LAG_SECONDS.set(max(delays))
