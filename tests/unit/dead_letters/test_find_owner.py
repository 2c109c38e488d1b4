"""A dead letter is shown only to the organization that both its key and its envelope name."""

import json

import pytest

from kb_shared.messaging.dead_letters import find_owner

EVENTS, COMMANDS = "document-events", "kb-index-requests"


def build_message(**data: object) -> bytes:
    return json.dumps({"data": data}).encode()


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        (EVENTS, b"acme/d1", b"not JSON", ("acme", "d1")),
        (EVENTS, b"acme/d1", None, ("acme", "d1")),
        (EVENTS, b"acme/tag/t1", b"not JSON", ("acme", None)),
        (EVENTS, b"acme/d1", build_message(organization_id="acme", document_id="d1"), ("acme", "d1")),
        (EVENTS, None, build_message(organization_id="acme", document_id="d1"), ("acme", "d1")),
        (EVENTS, b"acme/d1", build_message(organization_id="acme", document_id="d2"), ("acme", "d2")),
        (EVENTS, b"acme/d1", build_message(organization_id="other", document_id="d1"), (None, None)),
        (EVENTS, b"acme/d1", build_message(organization_id="../other"), ("acme", "d1")),
        (EVENTS, b"acme/d1", build_message(organization_id=["other"]), ("acme", "d1")),
        (EVENTS, b"acme/d1", b"[" * 100_000, ("acme", "d1")),
        (EVENTS, b"acme/d1", b"[]", ("acme", "d1")),
        (EVENTS, b"\xff/d1", b"not JSON", (None, None)),
        (EVENTS, b"acme/d1/more", b"not JSON", (None, None)),
        (EVENTS, None, None, (None, None)),
        # The key of a command begins with a KB.
        (COMMANDS, b"0123456789abcdef01234567/d1", b"not JSON", (None, None)),
        (
            COMMANDS,
            b"0123456789abcdef01234567/d1",
            build_message(organization_id="acme", document_id="d1"),
            ("acme", "d1"),
        ),
    ],
)
def test_whose_a_record_is(
    topic: str, key: bytes | None, value: bytes | None, expected: tuple[str | None, str | None]
) -> None:
    owner = find_owner(topic, key, value=value)
    assert (owner.organization_id, owner.document_id) == expected


def test_a_batch_is_of_an_organization_only_if_all_its_events_are() -> None:
    mine, others = ({"data": {"organization_id": each}} for each in ("acme", "other"))
    assert find_owner(EVENTS, None, value=json.dumps([mine] * 2_000).encode()).organization_id == "acme"
    assert find_owner(EVENTS, None, value=json.dumps([mine] * 2_000 + [others]).encode()).organization_id is None


def test_the_owner_is_read_from_where_the_event_is_read() -> None:
    data = {"organization_id": "acme", "document_id": "d1", "data": {"organization_id": "other", "document_id": "d2"}}
    headers = [(f"ce_{name}", b"1.0") for name in ("specversion", "id", "source", "type")]
    for attributes in (headers, headers[:1], []):
        owner = find_owner(EVENTS, None, value=json.dumps(data).encode(), headers=attributes)
        assert (owner.organization_id, owner.document_id) == ("acme", "d1")
