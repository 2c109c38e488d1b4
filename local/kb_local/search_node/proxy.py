"""One client connection and its connection to mongod, byte for byte but for what the node has to read."""

import asyncio
import itertools
import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, cast

from pymongo.errors import PyMongoError

from kb_local.search_node.answers import Aborted, Answer, Forwarded, IndexAnswer, PassThrough
from kb_local.search_node.frames import FrameAction, FrameSplitter
from kb_local.search_node.hello import HELLO_COMMANDS
from kb_local.search_node.wire import (
    CHECKSUM_PRESENT,
    MORE_TO_COME,
    OP_COMPRESSED,
    OP_MSG,
    OP_QUERY,
    MalformedFrame,
    WireMessage,
    command_name,
    decode_message,
    decode_reply,
    encode_message,
    read_header,
    replace_reply,
    reply_flags,
)

log = logging.getLogger(__name__)

SEARCH_INDEX_COMMANDS = frozenset({b"createSearchIndexes", b"updateSearchIndex", b"dropSearchIndex"})
# Enough to tell an aggregate that the node must understand from all others without decoding it; the first also finds
# `$searchMeta`, and `$text`, which then goes on untouched.
SEARCH_STAGES = (b"$search", b"$vectorSearch", b"$listSearchIndexes")
WRITE_BUFFER_BYTES = 1 << 20

CommandHandler = Callable[[dict[str, Any]], Awaitable[Answer]]
ReplyRewrite = Callable[[dict[str, Any]], dict[str, Any]]

_request_ids = itertools.count(1)


class _Connection(asyncio.Protocol):
    """One of the two connections; `other` is the one that its bytes go to."""

    other: "_Connection"
    transport: asyncio.Transport | None = None

    def __init__(self) -> None:
        self._reasons_to_wait: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the reason makes no difference
        self.other.close()

    def pause_writing(self) -> None:
        self.other.stop_reading("the other side is full")

    def resume_writing(self) -> None:
        self.other.resume_reading("the other side is full")

    def stop_reading(self, reason: str) -> None:
        self._reasons_to_wait.add(reason)
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self, reason: str) -> None:
        self._reasons_to_wait.discard(reason)
        if not self._reasons_to_wait and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """Close once everything written is sent."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class MongodConnection(_Connection):
    """The connection to mongod: replies go through, those in `rewrites` (by request id) are changed first."""

    def __init__(self, client: "ClientConnection") -> None:
        super().__init__()
        self.other = client
        self.rewrites: dict[int, ReplyRewrite] = {}
        self._splitter = FrameSplitter(
            choose_action=self._choose_action, forward=client.write, handle_frame=self._rewrite
        )

    def data_received(self, data: bytes) -> None:
        try:
            self._splitter.feed(data)
        except MalformedFrame:
            self.abort()

    def _choose_action(self, data: bytes, at: int) -> FrameAction:
        return FrameAction.HOLD if read_header(data, at).response_to in self.rewrites else FrameAction.PASS

    def _rewrite(self, frame: bytes) -> None:
        header = read_header(frame)
        rewrite = self.rewrites.pop(header.response_to)
        if reply_flags(frame) & MORE_TO_COME:
            # An exhaust hello: the next reply comes unasked, as an answer to this one.
            self.rewrites[header.request_id] = rewrite
        self.other.write(replace_reply(frame, rewrite(decode_reply(frame))))


class ClientConnection(_Connection):
    """The connection of a client; `handle` decides about the commands that concern search."""

    def __init__(
        self,
        mongod: tuple[str, int],
        *,
        handle: CommandHandler,
        rewrite_hello: ReplyRewrite,
        connections: set["ClientConnection"],
    ) -> None:
        super().__init__()
        self._mongod = mongod
        self._handle = handle
        self._rewrite_hello = rewrite_hello
        self._connections = connections
        self._upstream = MongodConnection(self)
        self.other = self._upstream
        self._splitter = FrameSplitter(
            choose_action=self._choose_action, forward=self._upstream.write, handle_frame=self._handle_frame
        )
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.add(self)
        self._block_until_done(self._connect())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connections.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._splitter.feed(data)
        except MalformedFrame as error:
            log.warning("client.refused reason=%r", str(error))
            self.abort()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._upstream, *self._mongod)
        except OSError:
            # As if mongod itself were not there; the driver knows what to do.
            self.abort()

    def _choose_action(self, data: bytes, at: int) -> FrameAction:
        header = read_header(data, at)
        if header.opcode == OP_COMPRESSED:
            raise MalformedFrame("compression was not offered")
        if header.opcode == OP_QUERY:
            self._upstream.rewrites[header.request_id] = self._rewrite_hello
        if header.opcode != OP_MSG:
            return FrameAction.PASS
        name = command_name(data, at)
        if name is None:
            return FrameAction.MORE
        if name in HELLO_COMMANDS:
            self._upstream.rewrites[header.request_id] = self._rewrite_hello
        return (
            FrameAction.HOLD if not name or name == b"aggregate" or name in SEARCH_INDEX_COMMANDS else FrameAction.PASS
        )

    def _handle_frame(self, frame: bytes) -> None:
        if command_name(frame) == b"aggregate" and not any(stage in frame for stage in SEARCH_STAGES):
            self._upstream.write(frame)
        else:
            self._block_until_done(self._intercept(frame))

    def _block_until_done(self, work: Awaitable[None]) -> None:
        """Do `work` before anything that the client sends later."""
        self._splitter.pause()
        self.stop_reading("a command is being worked on")
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._resume_after)

    def _resume_after(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if error := task.exception():
            # Without its message, which may quote a document.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("command.failed error=%s\n%s", type(error).__name__, where)
            self.abort()
            return
        self.resume_reading("a command is being worked on")
        try:
            self._splitter.resume()
        except MalformedFrame:
            self.abort()

    async def _intercept(self, frame: bytes) -> None:
        message = decode_message(frame)
        try:
            answer = await self._handle(message.body)
        except PyMongoError as error:
            # The node lost mongod in the middle: to the client it is a broken connection, as mongod's end would be.
            log.warning("command.interrupted error=%s", type(error).__name__)
            self.abort()
            return
        self._send_answer(answer, message, frame=frame)

    def _send_answer(self, answer: Answer, message: WireMessage, *, frame: bytes) -> None:
        request_id, flags = message.header.request_id, message.flags & ~CHECKSUM_PRESENT
        match answer:
            case PassThrough():
                self._upstream.write(frame)
            case Forwarded(command):
                self._upstream.write(encode_message(command, request_id=request_id, flags=flags))
            case IndexAnswer(reply):
                if not flags & MORE_TO_COME:
                    reply_id = next(_request_ids) & 0x7FFFFFFF
                    self.write(encode_message(reply, request_id=reply_id, response_to=request_id))
            case Aborted(command, error):
                self._upstream.rewrites[request_id] = lambda reply: reply | error.as_reply()
                self._upstream.write(encode_message(command, request_id=request_id, flags=flags))
