"""Wrong events as producers send them, each with a name, and what the system says about them.

After a change of the words, `.venv/bin/python -m tests.contract.wrong_events` writes `reasons.json` again. Read its
diff as a producer would.
"""

import gzip
import json
from pathlib import Path
from typing import Any, Final

from kb_contracts.cloudevents import decode
from kb_contracts.documents import DOCUMENT_EVENTS
from kb_contracts.errors import Rejected
from kb_contracts.metadata import require_storable_metadata

SNAPSHOT: Final = Path(__file__).parent / "reasons.json"

DATA: Final[dict[str, Any]] = {
    "organization_id": "acme",
    "document_id": "handbook",
    "revision": 1,
    "document_name": "handbook.pdf",
    "tag_ids": ["hr"],
    "upload_date": "2026-01-31T12:00:00Z",
    "text": "The text of the handbook.",
    "metadata": {"year": 2026},
}
ENVELOPE: Final[dict[str, Any]] = {
    "specversion": "1.0",
    "id": "1",
    "source": "/upstream",
    "type": "document.ocr_completed.v1",
    "time": "2026-01-31T12:00:00Z",
    "datacontenttype": "application/json",
    "data": DATA,
}
ABSENT: Final = object()
"""Stands for a field that is left out."""
_TAG: Final = {"organization_id": "acme", "tag_id": "hr", "name": "Human resources"}
_DELETION: Final = {"organization_id": "acme", "document_id": "handbook", "revision": 2}


def event(kind: str = "document.ocr_completed.v1", data: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """Return an event whose data have these changes."""
    fields = {**(DATA if data is None else data), **changes}
    kept = {name: value for name, value in fields.items() if value is not ABSENT}
    return json.dumps({**ENVELOPE, "type": kind, "data": kept}).encode()


def envelope(**changes: Any) -> bytes:
    """Return an event whose envelope has these changes."""
    kept = {name: value for name, value in {**ENVELOPE, **changes}.items() if value is not ABSENT}
    return json.dumps(kept).encode()


def metadata(value: Any) -> bytes:
    return event(metadata={"authors": value})


def pages(*positions: tuple[Any, Any, Any]) -> bytes:
    return event(pages=[{"page": page, "start": start, "end": end} for page, start, end in positions])


def event_with(text: str) -> bytes:
    """Return an event with `text` in place of its revision."""
    return event(revision="REVISION").replace(b'"REVISION"', text.encode())


_JSON: Final = json.dumps(ENVELOPE)

NOT_JSON: Final[dict[str, bytes | None]] = {
    "no value": None,
    "empty value": b"",
    "white space": b" \r\n",
    "plain text": b"handbook.pdf was uploaded",
    "CSV": b"acme,handbook,1",
    "XML": b'<?xml version="1.0"?><event/>',
    "YAML": b"---\nid: 1\n",
    "server-sent event": b"data: {}",
    "form": b"organization_id=acme&document_id=handbook",
    "Base64 of JSON": b"eyJzcGVjdmVyc2lvbiI6IjEuMCJ9",
    "UTF-16 with byte order mark": _JSON.encode("utf-16"),
    "UTF-16 little endian": _JSON.encode("utf-16-le"),
    "UTF-16 big endian": _JSON.encode("utf-16-be"),
    "Latin-1": '{"document_name": "Übersicht"}'.encode("latin-1"),
    "trailing NUL": _JSON.encode() + b"\0",
    "trailing comma in an object": b'{"id": "1",}',
    "trailing comma in a list": b'{"tag_ids": ["hr",]}',
    "two documents": b'{"id": "1"}\n{"id": "2"}',
    "cut off": _JSON.encode()[:40],
    "cut off in a text": b'{"id": "12',
    "None of Python": event_with("None"),
    "True of Python": event_with("True"),
    "undefined of JavaScript": event_with("undefined"),
    "single quotes": b"{'id': '1'}",
    "name without quotes": b'{id: "1"}',
    "no colon": b'{"id" "1"}',
    "no comma": b'{"id": "1" "source": "/"}',
    "comment": b'{"id": "1" /* one */}',
    "comment at the end of a line": b'{"id": "1", // one\n"source": "/"}',
    "comment of YAML": b'{"id": "1" # one\n}',
    "line break in a text": b'{"id": "1\n2"}',
    "unknown escape": b'{"id": "C:\\data"}',
    "short Unicode escape": b'{"id": "\\u12"}',
    "number with a leading zero": event_with("007"),
    "number with a plus": event_with("+7"),
    "nested 100,000 times": b"[" * 100_000,
    "same name twice": event().replace(b'"revision": 1', b'"revision": 1, "revision": 2'),
    "made-up name twice": b'{"a secret": 1, "a secret": 2}',
    "Avro of Confluent's schema registry": b"\0\0\0\0\x07\x08acme\x10handbook",
    "Protobuf of Confluent's schema registry": b"\0\0\0\0\x07\0\x0a\x04acme",
    "Avro without schema registry": b"\x08acme\x10handbook",
    "Avro with bytes that are not UTF-8": b"\x02\x08acme\x10handbook\xe2\x28\xa1",
    "Avro of AWS Glue": b"\x03\x00" + bytes(range(0xF0, 0x100)) + b"\x08acme",
    "Avro file": b"Obj\x01\x04\x14avro.codec",
    "Protobuf": b"\x0a\x04acme\x12\x08handbook",
    "MessagePack": b"\x82\xa2id\xa11\xa6source\xa1/",
    "serialized Java object": b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap",
    "pickled Python object": b"\x80\x04\x95\x10\x00\x00\x00",
    "gzip by the program": gzip.compress(_JSON.encode(), mtime=0),
    "zlib by the program": b"\x78\x9c\xab\x56\xca",
    "zstd by the program": b"\x28\xb5\x2f\xfd\x04\x00",
    "PDF": b"%PDF-1.7\n",
    "zip": b"PK\x03\x04\x14\x00",
    "larger than 1 MB": b" " * 1_000_001,
}
NOT_ENVELOPED: Final[dict[str, bytes]] = {
    "JSON null": b"null",
    "JSON text": b'"the whole event as a text"',
    "JSON number": b"5",
    "JSON list": b"[]",
    "empty object": b"{}",
    "data without envelope": json.dumps(DATA).encode(),
    "batch": b"[" + _JSON.encode() + b"]",
    "change event of Debezium": json.dumps({"before": None, "after": DATA, "op": "c"}).encode(),
    "message of Amazon SNS": json.dumps({"Type": "Notification", "MessageId": "1", "Message": _JSON}).encode(),
    "data_base64 of XML": envelope(data=ABSENT, data_base64="PGEvPg=="),
    "data_base64 that is none": envelope(data=ABSENT, data_base64="{}"),
    "data a text": envelope(data="the text of the handbook"),
    "type of Dapr": envelope(type="com.dapr.event.sent"),
    "specversion 0.3": envelope(specversion="0.3"),
    "specversion a number": envelope(specversion=1.0),
    "no id": envelope(id=ABSENT),
    "id empty": envelope(id=""),
    "id a number": envelope(id=7),
    "id too long": envelope(id="1" * 257),
    "no source": envelope(source=ABSENT),
    "source null": envelope(source=None),
    "no type": envelope(type=ABSENT),
    "type with eventType as name": envelope(type=ABSENT, eventType="document.deleted.v1"),
    "type null": envelope(type=None),
    "type of another version": envelope(type="document.ocr_completed.v2"),
    "type in another case": envelope(type="Document.Deleted.v1"),
    "type of another system": envelope(type="com.example.order.created"),
    "type a long text": envelope(type="a text that somebody wrote where the type should be, by mistake"),
    "time without zone": envelope(time="2026-01-31T12:00:00"),
    "time in words": envelope(time="yesterday at noon, or so I think"),
    "time before the calendar": envelope(time="0001-01-01T00:00:00+14:00"),
    "XML as datacontenttype": envelope(datacontenttype="application/xml"),
    "data a list": envelope(data=[DATA]),
    "event id with NUL": envelope(id="1\0"),
    "source with NUL": envelope(source="/up\0stream"),
    "data null": envelope(data=None),
}
WRONG_IDS: Final[dict[str, bytes]] = {
    "no organization": event(organization_id=ABSENT),
    "organization in camel case": event(organization_id=ABSENT, organizationId="acme"),
    "organization null": event(organization_id=None),
    "organization empty": event(organization_id=""),
    "organization a number": event(organization_id=7),
    "no document id": event(document_id=ABSENT),
    "document id as id": event(document_id=ABSENT, id="handbook"),
    "document id in camel case": event(document_id=ABSENT, documentId="handbook"),
    "document id with slash": event(document_id="hr/handbook"),
    "document id with space": event(document_id="handbook 2026"),
    "document id with a space at its end": event(document_id="handbook "),
    "document id with line break": event(document_id="handbook\n"),
    "document id with umlaut": event(document_id="übersicht"),
    "document id with umlaut of two characters": event(document_id="u\u0308bersicht"),
    "document id with Cyrillic letter": event(document_id="h\u0430ndbook"),
    "document id with zero-width space": event(document_id="hand\u200bbook"),
    "document id with NUL": event(document_id="handbook\0"),
    "document id with lone surrogate": event(document_id="\ud800"),
    "document id a URN": event(document_id="urn:uuid:5f0c"),
    "document id too long": event(document_id="handbook-" * 30),
    "document id empty": event(document_id=""),
    "document id null": event(document_id=None),
    "document id a number": event(document_id=4711),
    "document id true": event(document_id=True),
    "document id an object": event(document_id={"$oid": "65f1c2a3b4d5e6f708192a3b"}),
    "document id a list": event(document_id=["handbook"]),
}
WRONG_REVISIONS: Final[dict[str, bytes]] = {
    "NaN": event_with("NaN"),
    "Infinity": event_with("-Infinity"),
    "number with 5,000 digits": event_with("9" * 5_000),
    "no revision": event(revision=ABSENT),
    "revision misspelled": event(revision=ABSENT, revison=1),
    "revision a float": event(revision=1.5),
    "revision a whole float": event(revision=1.0),
    "revision a text": event(revision="1"),
    "revision a date": event(revision="2026-01-31T12:00:00Z"),
    "revision words": event(revision="the first one of them all"),
    "revision 2^63": event(revision=2**63),
    "revision below -2^63": event(revision=-(2**63) - 1),
    "revision with 100 digits": event(revision=10**99),
    "revision 1e400": event_with("1e400"),
    "revision true": event(revision=True),
    "revision null": event(revision=None),
    "revision a list": event(revision=[1]),
    "revision $numberLong": event(revision={"$numberLong": "1"}),
}
WRONG_DATES: Final[dict[str, bytes]] = {
    "no date": event(upload_date=ABSENT),
    "date without zone": event(upload_date="2026-01-31T12:00:00"),
    "date with space and without zone": event(upload_date="2026-01-31 12:00:00.123456"),
    "only a day": event(upload_date="2026-01-31"),
    "offset without minutes": event(upload_date="2026-01-31 12:00:00+01"),
    "GMT": event(upload_date="2026-01-31T12:00:00 GMT"),
    "CET": event(upload_date="2026-01-31T12:00:00 CET"),
    "zone by name": event(upload_date="2026-01-31T12:00:00 Europe/Berlin"),
    "zone in brackets": event(upload_date="2026-01-31T12:00:00+01:00[Europe/Berlin]"),
    "leap second": event(upload_date="2016-12-31T23:59:60Z"),
    "30 February": event(upload_date="2026-02-30T12:00:00Z"),
    "25 o'clock": event(upload_date="2026-01-31T25:00:00Z"),
    "before the year 1 in UTC": event(upload_date="0001-01-01T00:00:00+14:00"),
    "year 0": event(upload_date="0000-01-01T00:00:00Z"),
    "date of an e-mail": event(upload_date="Sat, 31 Jan 2026 12:00:00 GMT"),
    "date in German": event(upload_date="31.01.2026 12:00"),
    "date in American": event(upload_date="01/31/2026"),
    "date in words": event(upload_date="on the last day of January"),
    "date null": event(upload_date=None),
    "date empty": event(upload_date=""),
    "date true": event(upload_date=True),
    "date in microseconds": event(upload_date=1_769_860_800_000_000),
    "date in nanoseconds": event(upload_date=1_769_860_800_000_000_000),
    "date of Jackson": event(upload_date=[2026, 1, 31, 12, 0]),
    "date an object": event(upload_date={"seconds": 1_769_860_800}),
}
WRONG_TAGS: Final[dict[str, bytes]] = {
    "no tags": event(tag_ids=ABSENT),
    "tags as tags": event(tag_ids=ABSENT, tags=["hr"]),
    "tags a text": event(tag_ids="hr"),
    "tags null": event(tag_ids=None),
    "tags an object": event(tag_ids={"hr": True}),
    "tag null": event(tag_ids=["hr", None]),
    "tag empty": event(tag_ids=[""]),
    "tag with space": event(tag_ids=["human resources"]),
    "tags with commas": event(tag_ids=["hr,public"]),
    "tag a number": event(tag_ids=[7]),
    "tag an object": event(tag_ids=[{"id": "hr"}]),
    "1,001 tags": event(tag_ids=["hr"] * 1_001),
    "12 wrong tags": event(tag_ids=["a b"] * 12),
    "2,000 wrong tags": event(tag_ids=["a b"] * 2_000),
}
WRONG_METADATA: Final[dict[str, bytes]] = {
    "metadata a list": event(metadata=[]),
    "metadata a text": event(metadata='{"year": 2026}'),
    "metadata value a list": metadata(["Ada", "Grace"]),
    "metadata value an object": metadata({"first": "Ada"}),
    "metadata value an empty object": metadata({}),
    "metadata value null": metadata(None),
    "metadata value 2^70": metadata(2**70),
    "metadata value NaN": metadata("VALUE").replace(b'"VALUE"', b"NaN"),
    "metadata value 1e400": metadata("VALUE").replace(b'"VALUE"', b"1e400"),
    "metadata value $numberLong": metadata({"$numberLong": "7"}),
    "metadata value $oid": metadata({"$oid": "65f1c2a3b4d5e6f708192a3b"}),
    "metadata value with NUL": metadata("Ada\0"),
    "metadata value with lone surrogate": metadata("Ada \ud83d"),
    "metadata value too long": metadata("Ada " * 2_049),
    "metadata date without zone": metadata({"$date": "2026-01-31T12:00:00"}),
    "metadata date in words": metadata({"$date": "on the last day of January"}),
    "metadata date null": metadata({"$date": None}),
    "metadata date with more": metadata({"$date": "2026-01-31T12:00:00Z", "zone": "UTC"}),
    "metadata date $numberLong": metadata({"$date": {"$numberLong": "1769860800000"}}),
    "metadata key with space": event(metadata={"page count": 3}),
    "metadata key with umlaut": event(metadata={"größe": 3}),
    "metadata key empty": event(metadata={"": 3}),
    "metadata key too long": event(metadata={"k" * 65: 3}),
    "101 metadata keys": event(metadata={f"key-{number}": number for number in range(101)}),
    "several wrong metadata": event(metadata={"a": None, "b": [], "c": 2**70, "d": {}}),
}
WRONG_TEXTS: Final[dict[str, bytes]] = {
    "neither text nor text_ref": event(text=ABSENT),
    "text null": event(text=None),
    "both text and text_ref": event(text_ref="acme/handbook/1"),
    "text a number": event(text=4711),
    "text a list": event(text=["page one", "page two"]),
    "text an object": event(text={"body": "page one"}),
    "text with lone surrogate": event(text="page \ud83d one"),
    "text_ref a number": event(text=ABSENT, text_ref=1),
    "text_ref with NUL": event(text=ABSENT, text_ref="acme/handbook\0"),
    "text_ref too long": event(text=ABSENT, text_ref="r" * 513),
    "embedding_text empty": event(embedding_text=""),
    "embedding_text blank": event(embedding_text=" \n"),
    "embedding_text too long": event(embedding_text="e" * 8_001),
    "embedding_text a list": event(embedding_text=["e"]),
    "embedding_text with NUL": event(embedding_text="e\0"),
    "text too long for an embedding_text": event(text="t" * 8_001, embedding_text="e"),
    "no document_name": event(document_name=ABSENT),
    "document_name as name": event(document_name=ABSENT, documentName="handbook.pdf"),
    "document_name null": event(document_name=None),
    "document_name empty": event(document_name=""),
    "document_name a number": event(document_name=2026),
    "document_name too long": event(document_name="n" * 1_025),
    "document_name with NUL": event(document_name="handbook\0.pdf"),
    "document_name with lone surrogate": event(document_name="\udfff"),
    "content_type a number": event(content_type=1),
    "content_type with NUL": event(content_type="text/plain\0"),
    "content_type too long": event(content_type="x" * 129),
    "source_digest a list": event(source_digest=[1]),
    "source_digest too long": event(source_digest="0" * 129),
    "everything of a wrong type": event(data={name: [] for name in DATA}, tag_ids=1),
    "data empty": event(data={}),
}
WRONG_PAGES: Final[dict[str, bytes]] = {
    "pages an object": event(pages={"1": [0, 5]}),
    "page a number": event(pages=[1]),
    "page a list": event(pages=[[1, 0, 5]]),
    "page without end": event(pages=[{"page": 1, "start": 0}]),
    "page with other names": event(pages=[{"page": 1, "start_offset": 0, "end_offset": 5}]),
    "pages that overlap": pages((1, 0, 5), (2, 4, 8)),
    "pages in another order": pages((2, 5, 8), (1, 0, 5)),
    "page that ends before it begins": pages((1, 5, 4)),
    "page beyond the end of the text": pages((1, 0, 5), (2, 5, 1_000)),
    "page with a negative number": pages((-1, 0, 5)),
    "page with a negative start": pages((1, -5, 5)),
    "page with a float": pages((1, 0, 5.5)),
    "page with a text": pages(("one", 0, 5)),
    "page with a roman number": pages(("iv", 0, 5)),
    "page with null": pages((None, 0, 5)),
    "page with 2^31": pages((1, 0, 2**31)),
    "20,001 pages": event(pages=[{"page": 1, "start": 0, "end": 0}] * 20_001),
}
OTHER_EVENTS: Final[dict[str, bytes]] = {
    "tag without id": event("tag.upserted.v1", {"organization_id": "acme", "name": "Human resources"}),
    "tag event with space": event("tag.upserted.v1", _TAG, tag_id="human resources"),
    "tag with a name as id": event("tag.upserted.v1", _TAG, tag_id={"name": "hr"}),
    "tag with a name too long": event("tag.upserted.v1", _TAG, name="n" * 201),
    "tag with a number as name": event("tag.upserted.v1", _TAG, name=7),
    "tag with NUL in its name": event("tag.upserted.v1", _TAG, name="hr\0"),
    "tag with a revision of text": event("tag.upserted.v1", _TAG, revision="1"),
    "deleted tag without organization": event("tag.deleted.v1", {"tag_id": "hr"}),
    "deleted tag with a float as revision": event("tag.deleted.v1", {**_TAG, "revision": 0.5}),
    "deletion without revision": event("document.deleted.v1", {"organization_id": "acme", "document_id": "handbook"}),
    "deletion with a date as revision": event("document.deleted.v1", _DELETION, revision="2026-01-31"),
    "deletion of a list": event("document.deleted.v1", _DELETION, document_id=["a", "b"]),
    "new tags null": event("document.tags_changed.v1", _DELETION, tag_ids=None),
    "new tags absent": event("document.tags_changed.v1", _DELETION, tagIds=["hr"]),
    "new metadata absent": event("document.metadata_changed.v1", _DELETION),
    "new metadata null": event("document.metadata_changed.v1", _DELETION, metadata=None),
    "new metadata nested": event("document.metadata_changed.v1", _DELETION, metadata={"a": {"b": {"c": 1}}}),
}
WRONG: Final[dict[str, bytes | None]] = {
    **NOT_JSON,
    **NOT_ENVELOPED,
    **WRONG_IDS,
    **WRONG_REVISIONS,
    **WRONG_DATES,
    **WRONG_TAGS,
    **WRONG_METADATA,
    **WRONG_TEXTS,
    **WRONG_PAGES,
    **OTHER_EVENTS,
}


def refusal(value: bytes | None) -> str:
    """Return why an event is refused, of an organization that is strict with metadata."""
    try:
        received, _ = decode(value, DOCUMENT_EVENTS)
        require_storable_metadata(received.data.get("metadata"))
    except Rejected as error:
        return str(error)
    return "accepted"


def _write() -> None:
    found = {name: refusal(value) for name, value in WRONG.items()}
    SNAPSHOT.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    _write()
