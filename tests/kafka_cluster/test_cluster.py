"""The test cluster itself: its listeners, and its brokers that die and come back."""

import asyncio
import base64
import json
import os
import signal
import ssl
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import psutil
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError, KafkaError
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from tests.kafka_cluster.cluster import KafkaBrokers
from tests.kafka_cluster.rights import Acl, grant, revoke
from tests.kafka_cluster.server_properties import SCRAM, Listener, password_of
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster


class UnsecuredToken(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """A token without a signature, as `OAuthBearerUnsecuredValidatorCallbackHandler` takes them."""

    def __init__(self, principal: str) -> None:
        self._principal = principal

    async def token(self) -> str:
        # A broker rounds `iat` up to milliseconds, and refuses a token of the next millisecond.
        issued = int(time.time()) - 1
        claims = {"sub": self._principal, "iat": issued, "exp": issued + 600}
        return f"{_base64({'alg': 'none'})}.{_base64(claims)}."


def _base64(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _login(mechanism: str, user: str) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": UnsecuredToken(user)}
    return {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password_of(user)}


def _tls(brokers: KafkaBrokers, *, principal: str | None = None) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=brokers.authority.certificate)
    if principal is not None:
        signed = brokers.client_certificate(principal)
        context.load_cert_chain(signed.certificate, signed.key)
    return {"ssl_context": context}


async def _send(brokers: KafkaBrokers, listener: Listener, topic: str, **security: Any) -> None:
    protocol = "SSL" if listener is Listener.MTLS else listener.value
    client = AIOKafkaProducer(
        bootstrap_servers=brokers.bootstrap(listener), security_protocol=protocol, acks="all", **security
    )
    try:
        await client.start()
        await client.send_and_wait(topic, b"x")
    finally:
        await client.stop()


@pytest.fixture
async def topic(brokers: KafkaBrokers) -> str:
    """Return a topic that only the principal `operator` and super users may write to."""
    name = f"test-{uuid4().hex[:16]}"
    await asyncio.wrap_future(brokers.admin.create_topics([NewTopic(name, num_partitions=3)])[name])
    await grant(brokers, [Acl("operator", AclOperation.WRITE, ResourceType.TOPIC, name)])
    await brokers.until_in_sync()
    return name


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM, "OAUTHBEARER"])
@pytest.mark.parametrize("listener", [Listener.SASL_PLAINTEXT, Listener.SASL_SSL])
async def test_a_password_user_has_the_rights_of_its_principal(
    brokers: KafkaBrokers, topic: str, listener: Listener, mechanism: str
) -> None:
    security = _tls(brokers) if listener is Listener.SASL_SSL else {}
    await _send(brokers, listener, topic, **security, **_login(mechanism, "operator"))
    with pytest.raises(KafkaError):
        await _send(brokers, listener, topic, **security, **_login(mechanism, "stranger"))


async def test_a_client_certificate_has_the_rights_of_its_name(brokers: KafkaBrokers, topic: str) -> None:
    await _send(brokers, Listener.MTLS, topic, **_tls(brokers, principal="operator"))
    with pytest.raises(KafkaError):
        await _send(brokers, Listener.MTLS, topic, **_tls(brokers, principal="stranger"))
    with pytest.raises(KafkaConnectionError):
        await _send(brokers, Listener.MTLS, topic, **_tls(brokers))


async def test_an_anonymous_client_may_do_everything_with_and_without_tls(brokers: KafkaBrokers, topic: str) -> None:
    await _send(brokers, Listener.PLAINTEXT, topic)
    await _send(brokers, Listener.SSL, topic, **_tls(brokers))


async def test_a_right_that_is_taken_away_is_gone_on_every_broker(brokers: KafkaBrokers, topic: str) -> None:
    security = _login("PLAIN", "operator")
    await _send(brokers, Listener.SASL_PLAINTEXT, topic, **security)
    await revoke(brokers, [Acl("operator", AclOperation.WRITE, ResourceType.TOPIC, topic)])
    with pytest.raises(KafkaError):
        await _send(brokers, Listener.SASL_PLAINTEXT, topic, **security)


async def test_another_broker_controls_the_cluster_when_the_controller_is_killed(
    brokers: KafkaBrokers, topic: str
) -> None:
    first = await brokers.controller()
    await first.kill()
    assert await brokers.controller() is not first
    await brokers.leader_of(topic)
    await brokers.heal()
    assert all(broker.running for broker in brokers.brokers)


async def test_a_broker_has_other_settings_until_it_is_healed(brokers: KafkaBrokers) -> None:
    broker = brokers.brokers[0]
    await brokers.restart(broker, message_max_bytes="2000")
    assert broker.launched_with == {"message.max.bytes": "2000"}
    await brokers.heal()
    assert broker.launched_with == {}


async def test_no_broker_outlives_the_process_that_started_it() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.kafka_cluster", "--brokers", "1", stdout=PIPE
    )
    assert process.stdout is not None
    assert b"KB_TEST_KAFKA=" in await process.stdout.readline()
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("kafka.Kafka" in child.cmdline() for child in children)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    await until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
