"""MongoDB's wire protocol, as far as a proxy has to read it."""

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

OP_QUERY = 2004
OP_COMPRESSED = 2012
OP_MSG = 2013

CHECKSUM_PRESENT = 1
MORE_TO_COME = 2

HEADER_BYTES = 16
# 48,000,000 bytes is what a server accepts; anything larger is no wire message at all.
MAX_FRAME_BYTES = 48_000_000 + 16 * 1024
# After header, flags, section kind and body length comes the type of the first element, then its name.
_NAME_AT = 26
_LONGEST_NAME = 64
_OP_REPLY_FIXED_BYTES = 20

# Dates stay milliseconds, so that every date there is survives; broken UTF-8 in a document must not stop a scan.
CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS, unicode_decode_error_handler="replace"
)


class MalformedFrame(Exception):
    """The bytes are not the wire protocol, or a part of it that is never agreed on (compression)."""


class Header(NamedTuple):
    length: int
    request_id: int
    response_to: int
    opcode: int


@dataclass(frozen=True, slots=True)
class WireMessage:
    """An OP_MSG; its document sequences are merged into the body."""

    header: Header
    flags: int
    body: dict[str, Any]


def read_header(data: bytes, at: int = 0) -> Header:
    header = Header._make(struct.unpack_from("<iiii", data, at))
    if not HEADER_BYTES <= header.length <= MAX_FRAME_BYTES:
        raise MalformedFrame("impossible message length")
    return header


def command_name(data: bytes, at: int = 0) -> bytes | None:
    """Return the command of the OP_MSG that begins at `at`; None while too few bytes are there.

    Empty when the body is not the first section: then only the whole message tells.
    """
    length = read_header(data, at).length
    if length <= _NAME_AT:
        raise MalformedFrame("an OP_MSG without a command")
    if len(data) - at < min(length, _NAME_AT + _LONGEST_NAME):
        return None
    if data[at + 20] != 0:
        return b""
    end = data.find(0, at + _NAME_AT, at + _NAME_AT + _LONGEST_NAME)
    return data[at + _NAME_AT : end] if end >= 0 else b""


def decode_message(frame: bytes) -> WireMessage:
    """Read a whole OP_MSG."""
    header = read_header(frame)
    (flags,) = struct.unpack_from("<I", frame, HEADER_BYTES)
    end = header.length - 4 if flags & CHECKSUM_PRESENT else header.length
    body: dict[str, Any] = {}
    sequences: dict[str, list[dict[str, Any]]] = {}
    at = HEADER_BYTES + 4
    while at < end:
        kind, (size,) = frame[at], struct.unpack_from("<i", frame, at + 1)
        section = frame[at + 1 : at + 1 + size]
        if kind == 0:
            body = bson.decode(section, CODEC)
        else:
            name_end = section.index(0, 4)
            sequences[section[4:name_end].decode()] = bson.decode_all(section[name_end + 1 :], CODEC)
        at += 1 + size
    return WireMessage(header, flags, body | sequences)


def encode_message(body: dict[str, Any], *, request_id: int, response_to: int = 0, flags: int = 0) -> bytes:
    encoded = bson.encode(body, codec_options=CODEC)
    head = struct.pack("<iiiiI", HEADER_BYTES + 5 + len(encoded), request_id, response_to, OP_MSG, flags)
    return head + b"\0" + encoded


def decode_reply(frame: bytes) -> dict[str, Any]:
    """Read the document of a reply, be it an OP_MSG or the OP_REPLY that a legacy hello gets."""
    if read_header(frame).opcode == OP_MSG:
        return decode_message(frame).body
    return bson.decode(frame[HEADER_BYTES + _OP_REPLY_FIXED_BYTES :], CODEC)


def reply_flags(frame: bytes) -> int:
    """Return the flags of an OP_MSG reply; an OP_REPLY has none that matter."""
    if read_header(frame).opcode != OP_MSG:
        return 0
    flags: int = struct.unpack_from("<I", frame, HEADER_BYTES)[0]
    return flags


def replace_reply(frame: bytes, document: dict[str, Any]) -> bytes:
    """Return the same reply (ids, kind, flags) with another document."""
    header = read_header(frame)
    if header.opcode == OP_MSG:
        flags = reply_flags(frame) & ~CHECKSUM_PRESENT
        return encode_message(document, request_id=header.request_id, response_to=header.response_to, flags=flags)
    fixed = frame[HEADER_BYTES : HEADER_BYTES + _OP_REPLY_FIXED_BYTES]
    encoded = bson.encode(document, codec_options=CODEC)
    length = HEADER_BYTES + len(fixed) + len(encoded)
    return struct.pack("<iiii", length, *header[1:]) + fixed + encoded
