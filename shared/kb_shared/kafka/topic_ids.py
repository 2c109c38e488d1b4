"""Reads the ids of topics: a topic that was deleted and created again has its old name and another id.

The client library's own metadata request is too old to know ids (they came with version 10).
"""

from collections.abc import Collection
from io import BytesIO
from typing import Any
from uuid import UUID

from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, NoError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

NO_ID = UUID(int=0)


class _Uuid(AbstractType[UUID]):  # type: ignore[misc]  # the client library has no types
    @classmethod
    def encode(cls, value: UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> UUID:
        return UUID(bytes=data.read(16))


_CompactText = CompactString("utf-8")
_PARTITION = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline_replicas", CompactArray(Int32)),
    ("tags", TaggedFields),
)


class _MetadataResponse(Response):  # type: ignore[misc]  # the client library has no types
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", _CompactText),
                ("port", Int32),
                ("rack", _CompactText),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", _CompactText),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _CompactText),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                ("partitions", CompactArray(*_PARTITION)),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _MetadataRequestV10(RequestStruct):  # type: ignore[misc]  # the client library has no types
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = _MetadataResponse
    FLEXIBLE_VERSION = True
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", _CompactText), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _MetadataRequest(Request[_MetadataRequestV10]):  # type: ignore[misc]  # the client library has no types
    API_KEY = 3

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def build(self, request_struct_class: type[_MetadataRequestV10]) -> _MetadataRequestV10:
        # A broker that creates topics automatically must not create these.
        return request_struct_class([(NO_ID, name, {}) for name in self._names], False, False, False, {})


async def read_topic_ids(client: Any, names: Collection[str]) -> dict[str, UUID]:
    """Return the ids of those of `names` that exist; nothing from brokers older than ids (Kafka before 2.8).

    Args:
        client: an `AIOKafkaClient` that is connected.

    Raises:
        KafkaError: no broker answered.
    """
    node = client.get_random_node()
    if node is None:
        raise KafkaError("no broker is known")
    try:
        answer = await client.send(node, _MetadataRequest(names))
    except (IncompatibleBrokerVersion, NotImplementedError):
        return {}
    return {
        name: topic_id
        for error_code, name, topic_id, *_ in answer.topics
        if error_code == NoError.errno and topic_id != NO_ID
    }
