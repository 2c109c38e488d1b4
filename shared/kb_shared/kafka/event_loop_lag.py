"""How late the event loop is: heartbeats live on it, and CPU work that blocks it costs the group's membership."""

import asyncio
import time
from collections import deque

from kb_shared.observability import metrics

INTERVAL_S = 0.5
REMEMBERED = 30


async def watch_event_loop() -> None:
    """Export the worst delay of the last 15 s, so that a spike lives to the next scrape. Runs until cancelled."""
    delays: deque[float] = deque(maxlen=REMEMBERED)
    while True:
        began = time.monotonic()
        await asyncio.sleep(INTERVAL_S)
        delays.append(max(0.0, time.monotonic() - began - INTERVAL_S))
        metrics.EVENT_LOOP_LAG_SECONDS.set(max(delays))
