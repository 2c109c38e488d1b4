"""One connection of a client and its connection to the broker: byte for byte, but fetches may wait here.

A fetch waits if it is the same as the one before on its connection and nothing was produced since, so that the broker
would answer the same. It goes on as soon as something is produced on any connection, when its time is over, or when
the client sends another request, since the broker answers the requests of a connection in their order. Its time is
short at first, and grows to what the client allows while nothing comes.
"""

import asyncio
from collections import deque
from typing import Final, cast

from kb_local.broker_proxy.requests import (
    HEADER,
    LEAST_SIZE,
    RESPONSE_HEADER,
    SIZE_BYTES,
    Fetch,
    may_add_records,
    needs_whole_frame,
    refuse_version,
)

SHORTEST_PAUSE_S: Final = 0.01
"""Time between two equal fetches of a connection while others produce: more of them would only use CPU."""
SHORTEST_WAIT_S: Final = 0.05
"""Waiting time of a fetch while records come. A client that has a fetch under way sends no other one, and a fetch does
not name the partitions whose records the client still has: these have to wait for the next fetch."""
WAIT_PER_QUIET: Final = 0.1
"""Ratio of the longest waiting time to the time for which the positions of the client have been the same."""
SHORTEST_LOOK_S: Final = 0.005
LOOK_PER_QUIET: Final = 0.02
"""Ratio of the time that Tansu has for an answer to the time for which the positions have been the same. Tansu answers
without records when its time is over, however many there are, and finding one of many takes longer than a moment."""
_MOST_UNANSWERED: Final = 1_000


class RecordsNews:
    """Tells waiting fetches that records may have been added."""

    def __init__(self) -> None:
        self.count = 0
        """Number of requests so far that may have added records."""
        self.waiting: set[KafkaClientConnection] = set()

    def announce(self) -> None:
        """Let all waiting fetches go on."""
        self.count += 1
        for connection in list(self.waiting):
            connection.continue_fetch_soon()


class _Side(asyncio.Protocol):
    """One of the two connections; `other` is the one that its bytes go to.

    The end of what is received ends both: no client of Kafka goes on reading after it has stopped writing.
    """

    other: "_Side"

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._early: list[bytes] = []
        self._is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._is_closed:
            self._transport.close()
            return
        self._transport.writelines(self._early)
        self._early.clear()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the reason makes no difference
        self._is_closed = True
        self.other.close()

    def pause_writing(self) -> None:
        self.other.set_reading(on=False)

    def resume_writing(self) -> None:
        self.other.set_reading(on=True)

    def set_reading(self, *, on: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.resume_reading if on else self._transport.pause_reading)()

    def write(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close once everything written is sent."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.close()


class KafkaClientConnection(_Side):
    """The connection to the client."""

    def __init__(self, broker: tuple[str, int], news: RecordsNews) -> None:
        super().__init__()
        self._broker = broker
        self._news = news
        self._to_broker = _BrokerConnection(self, news)
        self.other = self._to_broker
        self._passing_bytes = 0
        self._waiting: Fetch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_content: object = None
        self._changed_at = 0.0
        self._last_count = -1
        self._last_sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connecting = asyncio.create_task(self._connect())

    def connection_lost(self, exc: Exception | None) -> None:
        self._continue_fetch()
        super().connection_lost(exc)

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._to_broker, *self._broker)
        except OSError:
            self.close()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while self._pass_on():
            pass

    def _pass_on(self) -> bool:
        """Pass on the rest of a request, or begin with the next one; False if more bytes have to come first."""
        if self._passing_bytes:
            part = self._take_bytes(self._passing_bytes)
            self._passing_bytes -= len(part)
            self.other.write(part)
            return bool(self._received)
        if len(self._received) < HEADER.size:
            return False
        size, api_key, version, correlation_id = HEADER.unpack_from(self._received)
        if size < LEAST_SIZE:
            # This is not Kafka. A broker closes such a connection, too.
            self.close()
            return False
        if needs_whole_frame(api_key, version):
            if len(self._received) < SIZE_BYTES + size:
                return False
            self._answer_or_hold(self._take_bytes(SIZE_BYTES + size))
            return True
        self._continue_fetch()
        if may_add_records(api_key):
            self._to_broker.unanswered.append(correlation_id)
        self._passing_bytes = SIZE_BYTES + size
        return True

    def _answer_or_hold(self, frame: bytes) -> None:
        if (refusal := refuse_version(frame)) is None:
            self._fetch(frame)
        else:
            # It overtakes nothing: a client sends no other request before it knows the versions of the broker.
            self.write(refusal)

    def _take_bytes(self, size: int) -> bytes:
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _fetch(self, frame: bytes) -> None:
        self._continue_fetch()
        fetch = Fetch.parse(frame)
        if fetch is None:
            self.other.write(frame)
            return
        is_same = fetch.content == self._last_content
        self._last_content, self._waiting = fetch.content, fetch
        loop = asyncio.get_running_loop()
        if not is_same:
            self._changed_at = loop.time()
            self._continue_fetch()
            return
        quiet_s = loop.time() - self._changed_at
        wait_s = min(fetch.max_wait_s, max(SHORTEST_WAIT_S, WAIT_PER_QUIET * quiet_s))
        self._timer = loop.call_later(wait_s, self._continue_fetch)
        self._news.waiting.add(self)
        if self._last_count != self._news.count:
            self.continue_fetch_soon()

    def continue_fetch_soon(self) -> None:
        """Send the waiting fetch now, or a moment later if the one before was sent just now."""
        loop = asyncio.get_running_loop()
        due_at = self._last_sent_at + SHORTEST_PAUSE_S
        if due_at <= loop.time():
            self._continue_fetch()
        elif self._timer is not None and due_at < self._timer.when():
            self._timer.cancel()
            self._timer = loop.call_at(due_at, self._continue_fetch)

    def _continue_fetch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._news.waiting.discard(self)
        fetch, self._waiting = self._waiting, None
        if fetch is not None:
            now = asyncio.get_running_loop().time()
            self._last_count, self._last_sent_at = self._news.count, now
            look_s = min(LOOK_PER_QUIET * (now - self._changed_at), fetch.max_wait_s / 2)
            self.other.write(fetch.waiting_for(max(SHORTEST_LOOK_S, look_s)))


class _BrokerConnection(_Side):
    """The connection to the broker."""

    def __init__(self, client: KafkaClientConnection, news: RecordsNews) -> None:
        super().__init__()
        self.other = client
        self._news = news
        self.unanswered: deque[int] = deque(maxlen=_MOST_UNANSWERED)
        """Correlation ids of requests that may add records. Bounded: a producer may ask for no answers."""
        self._skipping_bytes = 0

    def data_received(self, data: bytes) -> None:
        self.other.write(data)
        self._received += data
        while self._skip_response():
            pass

    def _skip_response(self) -> bool:
        """Skip the rest of a response, or read the head of the next one; False if more bytes have to come first."""
        if self._skipping_bytes:
            skipped = min(self._skipping_bytes, len(self._received))
            del self._received[:skipped]
            self._skipping_bytes -= skipped
            return bool(self._received)
        if len(self._received) < RESPONSE_HEADER.size:
            return False
        size, correlation_id = RESPONSE_HEADER.unpack_from(self._received)
        self._skipping_bytes = SIZE_BYTES + size
        if correlation_id in self.unanswered:
            while self.unanswered.popleft() != correlation_id:
                pass
            self._news.announce()
        return True
