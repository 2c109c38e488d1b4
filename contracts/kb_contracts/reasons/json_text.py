"""Reads JSON as RFC 8259 defines it, and names what is no JSON for what it is."""

import codecs
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from kb_contracts.reasons.shown_values import is_plain

_SCHEMA_ID_BYTES: Final = 5
_SIGNATURES: Final[Mapping[bytes, str]] = {
    b"\xff\xfe": "UTF-16 or UTF-32",
    b"\xfe\xff": "UTF-16",
    b"\x00\x00\xfe\xff": "UTF-32",
}
"""First bytes of texts in other encodings."""
_FORMATS: Final[Mapping[bytes, str]] = {
    b"\x1f\x8b": "gzip data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"\x04\x22\x4d\x18": "lz4 data",
    b"\x78\x01": "zlib data",
    b"\x78\x9c": "zlib data",
    b"\x78\xda": "zlib data",
    b"\x82SNAPPY": "snappy data",
    b"\xff\x06\x00\x00sNaPpY": "snappy data",
    b"\xac\xed\x00\x05": "a serialized Java object",
    b"Obj\x01": "an Avro file",
    b"\x80\x02": "a pickled Python object",
    b"\x80\x03": "a pickled Python object",
    b"\x80\x04": "a pickled Python object",
    b"\x80\x05": "a pickled Python object",
    b"PK\x03\x04": "a zip file",
    b"%PDF-": "a PDF file",
}
_BINARY_MAPS: Final = frozenset({*range(0x80, 0xA0), *range(0xA0, 0xC0), 0xDC, 0xDD, 0xDE, 0xDF})
"""First bytes of lists and objects of MessagePack and CBOR."""
_COMPRESSED: Final = " data"
_BINARY_DATA: Final = "it is binary data, such as Avro, Protobuf, MessagePack or CBOR: send plain JSON"
_WORDS_OF_OTHERS: Final = re.compile(r"None|True|False|undefined|nan|inf|NULL|TRUE|FALSE")
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_COMMENTS: Final = ("//", "/*", "#")
_BASE64: Final = re.compile(r"(?:eyJ|eyA|ewog|ewo|ewoJ)[A-Za-z0-9+/_=.\r\n-]*")
_MESSAGES: Final[Mapping[str, str]] = {
    "Invalid control character at": "a text has a line break or another control character that is not escaped,",
    "Invalid \\escape": "a text has a backslash that begins no escape,",
    "Invalid \\uXXXX escape": "a text has an escape \\u without four hexadecimal digits,",
    "Expecting property name enclosed in double quotes": "a name in double quotes is expected",
    "Expecting ':' delimiter": "a colon is expected",
    "Expecting ',' delimiter": "a comma, or the end of the list or object, is expected",
    "Expecting value": "a value is expected",
}
_UNTERMINATED: Final = "Unterminated string starting at"


class NotJson(ValueError):
    """Bytes that are no JSON document. The message completes "the value is not JSON", and quotes no text."""


class NotUtf8(NotJson):
    """Bytes that are not UTF-8, in which JSON is written."""


def to_text(value: bytes) -> str:
    """Return the text of a JSON document, without the byte order mark that editors put before it (RFC 8259, 8.1).

    Raises:
        NotUtf8: it is written in another encoding, or is no text.
        NotJson: its first bytes say that it is something else.
    """
    value = value.removeprefix(codecs.BOM_UTF8)
    if not value.strip(b" \t\r\n"):
        raise NotJson("it is empty" if not value else "it has nothing but white space")
    _check_first_bytes(value)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        position, byte = error.start, value[error.start]
        if (position == 0 and byte in _BINARY_MAPS) or _begins_binary(value):
            raise NotUtf8(_BINARY_DATA) from None
        raise NotUtf8(
            f"byte {position} (0x{byte:02X}) is not UTF-8, in which JSON is written: encode the text as UTF-8"
        ) from None


def _constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON: write null or leave the field out")


def parse_text(
    text: str,
    *,
    parse_float: Callable[[str], Any] = float,
    parse_int: Callable[[str], Any] = int,
    parse_constant: Callable[[str], Any] = _constant,
) -> Any:
    """Return the value of a JSON document.

    Raises:
        NotJson: it is none, or is ambiguous: a name occurs twice in one object.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_constant=parse_constant, parse_float=parse_float, parse_int=parse_int
        )
    except json.JSONDecodeError as error:
        raise NotJson(_describe(text, error)) from None
    except NotJson:
        raise
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError:
        # Python refuses to read more.
        raise NotJson("a number has more than 4,300 digits") from None


def _check_first_bytes(value: bytes) -> None:
    for first, encoding in _SIGNATURES.items():
        if value.startswith(first):
            raise NotUtf8(f"it is written in {encoding}: encode it as UTF-8")
    for first, name in _FORMATS.items():
        if value.startswith(first):
            advice = ", and let the producer compress records" if name.endswith(_COMPRESSED) else ""
            raise NotJson(f"it is {name}: send plain JSON{advice}")
    if value[0] == 0 and len(value) > _SCHEMA_ID_BYTES:
        _check_zero(value)
    elif len(value) > 1 and value[1] == 0 and value[0] in b'{["':
        raise NotUtf8("it is written in UTF-16: encode it as UTF-8")


def _check_zero(value: bytes) -> NoReturn:
    if value[1] in b'{["':
        raise NotUtf8("it is written in UTF-16: encode it as UTF-8")
    schema_id = int.from_bytes(value[1:_SCHEMA_ID_BYTES])
    raise NotJson(
        f"it begins with the byte 0 and the schema id {schema_id}, as Confluent's serializers write (Avro, Protobuf, "
        "JSON Schema): send plain JSON"
    )


def _describe(text: str, error: json.JSONDecodeError) -> str:
    where = _where(text, error)
    return (
        _fault_at_its_end(text, error, where)
        or _fault_of_habit(text, error.pos, where)
        or f"{_MESSAGES.get(error.msg, 'there is a mistake')} {where}"
    )


def _fault_at_its_end(text: str, error: json.JSONDecodeError, where: str) -> str | None:
    """Say what follows a document, or what a text is that is none or a part of one."""
    if error.msg == "Extra data" and not text[error.pos :].strip("\x00 \t\r\n"):
        return f"NUL characters follow its end {where}: remove them"
    if kind := _other_kind(text[:1_000].lstrip(" \t\r\n")):
        return kind
    if error.msg == "Extra data":
        return f"something follows its end {where}: send one JSON document as one message"
    if error.msg == _UNTERMINATED:
        return f"it ends before the text does that begins {where}: was it cut off?"
    return f"it ends before it is complete {where}: was it cut off?" if error.pos >= len(text) else None


def _fault_of_habit(text: str, position: int, where: str) -> str | None:
    """Name what other languages allow and JSON does not."""
    rest = text[position : position + 20]
    if word := _WORDS_OF_OTHERS.match(rest):
        return f"{word[0]} {where} is not JSON: write null, true, false or a number"
    if rest.startswith(_COMMENTS):
        return f"there is a comment {where}: JSON has none, remove it"
    if rest[0] == "'":
        return f"there is a single quote {where}: JSON has double quotes"
    # Newer versions of Python point to the comma itself.
    if rest[0] == "," or (rest[0] in "}]" and text[:position].rstrip(" \t\r\n").endswith(",")):
        return f"there is a comma too many {where}: remove it"
    return None


def _other_kind(beginning: str) -> str | None:
    """Say what a text is that begins like no JSON; None if it may be JSON with a mistake."""
    if _begins_binary(beginning.encode()):
        return _BINARY_DATA
    if beginning.startswith("<"):
        return "it is XML or HTML: send JSON"
    if is_base64_of_json(beginning):
        return "it looks like JSON in Base64: send the JSON itself"
    if beginning.startswith("---"):
        return "it looks like YAML: send JSON"
    if beginning[:1] in '{["' or beginning[:1] in "-0123456789" or _is_word(beginning):
        return None
    return "it is plain text or another format: send a JSON object"


def is_base64_of_json(text: str) -> bool:
    """Return whether a text is what JSON becomes in Base64."""
    return _BASE64.fullmatch(text) is not None


def _begins_binary(value: bytes) -> bool:
    return _BINARY.search(value[:8]) is not None


def _is_word(text: str) -> bool:
    return text.startswith(("true", "false", "null")) or _WORDS_OF_OTHERS.match(text) is not None


def _where(text: str, error: json.JSONDecodeError) -> str:
    byte = len(text[: error.pos].encode(errors="surrogatepass"))
    return f"at line {error.lineno} column {error.colno} (byte {byte})"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotJson(f"{_repeated(pairs)} occurs twice in one object: send it once")
    return value


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return f"the name {name}" if is_plain(name) else "a name"
        seen.add(name)
    return "a name"
