"""Clients log in with what their files hold when they open a connection, without being made again."""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from kb_contracts.topics import Topic
from kb_shared.errors import TransientError
from kb_shared.kafka.producer import Producer
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.kafka_cluster.rights import Acl, grant
from tests.kafka_cluster.server_properties import SCRAM, Listener, password_of

pytestmark = pytest.mark.kafka_cluster

USER = "operator"


@dataclass(frozen=True, slots=True)
class Login:
    """A connection, and the files of it that are renewed."""

    connection: KafkaConnection
    secrets: Mapping[Path, bytes]

    def corrupt(self) -> None:
        for path in self.secrets:
            path.write_bytes(b"of another owner\n")

    def renew(self) -> None:
        for path, content in self.secrets.items():
            path.write_bytes(content)


def token_of(user: str) -> str:
    """A token without a signature, as `OAuthBearerUnsecuredValidatorCallbackHandler` takes them."""

    def part(claims: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': user, 'iat': now, 'exp': now + 600})}."


def login(brokers: KafkaBrokers, mechanism: str, folder: Path) -> Login:
    secret, ca = folder / "secret", brokers.authority.certificate
    if mechanism == "certificate":
        signed = brokers.client_certificate(USER)
        certificate, key = folder / "certificate", folder / "key"
        return Login(
            KafkaConnection(
                brokers.bootstrap(Listener.MTLS),
                security_protocol="SSL",
                ssl_ca_file=ca,
                ssl_certificate_file=certificate,
                ssl_key_file=key,
            ),
            {certificate: Path(signed.certificate).read_bytes(), key: Path(signed.key).read_bytes()},
        )
    by: dict[str, Any] = {"sasl_token_file": secret}
    if mechanism != "OAUTHBEARER":
        by = {"sasl_username": USER, "sasl_password_file": secret}
    return Login(
        KafkaConnection(
            brokers.bootstrap(Listener.SASL_SSL),
            security_protocol="SASL_SSL",
            sasl_mechanism=mechanism,  # type: ignore[arg-type]  # one of the parameters below
            ssl_ca_file=ca,
            **by,
        ),
        {secret: (token_of(USER) if mechanism == "OAUTHBEARER" else password_of(USER)).encode()},
    )


def drop_connections(producer: Producer) -> None:
    for connection in list(producer._client.client._conns.values()):
        connection.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM, "OAUTHBEARER", "certificate"])
async def test_renewed_files_are_used_by_the_next_connection(
    brokers: KafkaBrokers, tmp_path: Path, mechanism: str
) -> None:
    topic = Topic(f"test-{uuid4().hex[:12]}", partitions=1, retention=timedelta(hours=1))
    await ensure_topics(KafkaConnection(brokers.bootstrap()), [topic])
    await grant(brokers, [Acl(USER, AclOperation.WRITE, ResourceType.TOPIC, topic.name)])
    way_in = login(brokers, mechanism, tmp_path)
    way_in.renew()
    way_in.connection.check_files()
    producer = Producer(
        way_in.connection, idempotence=True, request_timeout_ms=10_000, delivery_timeout_s=3, stop_timeout_s=1
    )
    async with producer:
        await producer.send(topic.name, b"k", value=b"1")
        way_in.corrupt()
        drop_connections(producer)
        with pytest.raises(TransientError):
            await producer.send(topic.name, b"k", value=b"2")
        way_in.renew()
        producer._delivery_timeout_s = 30
        await producer.send(topic.name, b"k", value=b"3")
