"""The permissions of the documentation are enough for the whole system, each is needed, and others have none."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from kb_client.events import EventPublisher, PublishingFailed
from kb_contracts import topics
from kb_indexer.bootstrap import GROUP_FAN_OUT, GROUP_SYNC
from kb_local.broker_contents import resend_after_broker_loss
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from kb_shared.kafka_connection.clients import consumer_client
from tests.chaos.quiescence import describe_activity, until_quiescent
from tests.chaos.workload import Upstream, paragraph
from tests.conftest import RunningMongo
from tests.e2e.system import QUICK_ON_KAFKA, SystemUnderTest, system
from tests.kafka_access import OPERATOR, PRINCIPAL_OF, UPSTREAM, KafkaAccess
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.kafka_cluster.permissions import documented_acls
from tests.kafka_cluster.rights import Acl, grant, revoke
from tests.kafka_cluster.server_properties import USERS, Listener, password_of
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster

PREFIX = "acme."
TAG = "a"
INDISPENSABLE = (
    ("READ", topics.DOCUMENT_EVENTS.name),
    ("READ", GROUP_FAN_OUT),
    ("READ", topics.INDEX_REQUESTS.name),
    ("READ", GROUP_SYNC),
    ("WRITE", topics.INDEX_REQUESTS.name),
    ("WRITE", topics.KB_EVENTS.name),
    ("WRITE", topics.USAGE.name),
)
"""Rights that some service needs for each document; if several services need one, all lose it at once."""
PRINCIPALS = {*PRINCIPAL_OF.values(), OPERATOR, UPSTREAM}
DECISION = re.compile(
    r"Principal = User:(?P<principal>\S+) is (?P<verdict>Allowed|Denied) operation = (?P<operation>\w+) .* "
    r"on resource = (?P<kind>\w+):LITERAL:(?P<name>\S+) for request"
)
RULE = re.compile(
    r"resourceType=(?P<kind>\w+), resourceName=(?P<name>[^,]+), .*principal=User:(?P<principal>[^,]+), "
    r".*operation=(?P<operation>\w+)"
)


@pytest.fixture
async def audited(tmp_path: Path) -> AsyncIterator[KafkaBrokers]:
    """A broker that logs every decision of its authorizer."""
    cluster = KafkaBrokers(tmp_path / "kafka", brokers=1)
    cluster.brokers[0].logs_what_is_allowed = True
    async with cluster:
        yield cluster


@pytest.fixture
async def access(audited: KafkaBrokers, tmp_path: Path) -> KafkaAccess:
    """Every principal may do what the documentation says, and no more."""
    await grant(audited, documented_acls(prefix=PREFIX))
    return KafkaAccess.write(
        tmp_path / "principals",
        ca=audited.authority.certificate,
        admin=audited.bootstrap(),
        passwords=[(user, password_of(user)) for user in USERS],
    )


@pytest.fixture
def stack(
    tmp_path: Path, search_node: RunningMongo | SearchNodeProcess, model_server: ModelServerProcess, zygote: Zygote
) -> Callable[..., Stack]:
    """Makes a stack of all services, given what concerns Kafka."""
    return partial(
        Stack,
        tmp_path / "stack",
        mongo_uri=search_node.uri,
        models_api_base=model_server.api_base,
        zygote=zygote,
        database=f"permissions_{uuid4().hex[:12]}",
        topic_prefix=PREFIX,
    )


@pytest.fixture
async def opened(
    access: KafkaAccess, audited: KafkaBrokers, stack: Callable[..., Stack]
) -> AsyncIterator[SystemUnderTest]:
    secured = stack(
        env={**QUICK_ON_KAFKA, "KB_RECONCILE_INTERVAL_S": "1", **access.settings_of(OPERATOR)},
        env_of=access.settings_of_services,
        kafka=audited.bootstrap(Listener.SASL_SSL),
    )
    async with secured, system(secured, access=access) as opened:
        yield opened
        await opened.database.client.drop_database(secured.database)


async def test_the_documented_permissions_are_enough_and_each_of_them_is_used(
    opened: SystemUnderTest, access: KafkaAccess, audited: KafkaBrokers
) -> None:
    await _live(opened, access)
    documented = {_describe(acl) for acl in documented_acls(prefix=PREFIX)}

    # Either of two services sends all that is in the outbox when the other is away.
    for away in ("kb_indexer", "kb_api"):
        await _redrive_all(opened)
        await opened.stack.stop_service(away)
        await resend_after_broker_loss(opened.stack.mongo_uri, database=opened.stack.database)
        sent = {
            permission for permission in documented if permission[0] != PRINCIPAL_OF[away] and permission[1] == "WRITE"
        }
        await until(partial(_are_used, audited, sent), every_s=0.5, what=f"all rights to write, without {away}")
        await opened.stack.start_service(away)
    await until(partial(_are_used, audited, documented), every_s=0.5, what="each permission")
    assert _denied(audited) == set()


async def test_a_client_without_permission_cannot_publish_events(opened: SystemUnderTest, access: KafkaAccess) -> None:
    event = Upstream(opened.organization_id).ocr("forged", [paragraph("forged")], tags=[TAG])
    for principal in ("stranger", "kb-search", "kb-reconciler"):
        foreign = access.connection_of(principal, opened.stack.kafka)
        with pytest.raises(PublishingFailed, match="TopicAuthorizationFailedError"):
            async with EventPublisher(foreign, source="/foreign", topic_prefix=PREFIX, idempotence=False) as events:
                await events.publish(event)
    assert await opened.kafka.read(topics.DOCUMENT_EVENTS) == []


async def test_without_any_of_these_rights_work_stops_and_it_goes_on_when_the_right_is_given_back(
    opened: SystemUnderTest, access: KafkaAccess, audited: KafkaBrokers
) -> None:
    await _live(opened, access)
    await until_quiescent(opened)
    upstream = Upstream(opened.organization_id)
    for operation, name in INDISPENSABLE:
        acls = _held_by_services(operation, PREFIX + name)
        assert acls, f"no user may {operation} {name}"
        await revoke(audited, acls)
        await opened.events.publish(upstream.ocr(f"{operation}-{name}", [paragraph(name)], tags=[TAG]))
        denied = {_describe(acl) for acl in acls}
        await until(partial(_is_any_denied, audited, denied), every_s=0.2, what=f"{operation} {name} is denied")
        assert await describe_activity(opened) is not None, f"all is done without the right to {operation} {name}"
        await grant(audited, acls)
        await until_quiescent(opened)


def _held_by_services(operation: str, name: str) -> list[Acl]:
    services = PRINCIPAL_OF.values()
    everything = documented_acls(prefix=PREFIX)
    return [
        acl for acl in everything if acl.principal in services and (acl.operation.name, acl.name) == (operation, name)
    ]


async def _live(opened: SystemUnderTest, access: KafkaAccess) -> None:
    """Have every service do everything that it does with Kafka."""
    upstream = Upstream(opened.organization_id)
    await opened.create_tags(TAG)
    await opened.events.publish(upstream.ocr("before", [paragraph("before")], tags=[TAG]))
    kb_id = await opened.create_knowledge_base(TAG)
    await opened.until_active(kb_id)
    await opened.events.publish(upstream.ocr("after", [paragraph("after")], tags=[TAG]))
    await opened.until_found(kb_id, ["before", "after"])
    # It has another tag than the KB, in which the checks below expect certain documents.
    entry = {"title": "Entry", "content": paragraph("entry")}
    (await opened.http.post("/knowledge-entries", json=entry)).raise_for_status()
    for topic in (topics.DOCUMENT_EVENTS, topics.INDEX_REQUESTS, topics.INDEX_BACKFILL, topics.KB_EVENTS):
        for number in range(8):
            await opened.kafka.send(topic, f"{opened.organization_id}/malformed-{number}".encode(), b"malformed")
    body = {
        "revision": 1,
        "document_name": "d",
        "tag_ids": [TAG],
        "text": "text",
        "upload_date": "2026-01-31T00:00:00Z",
    }
    (await opened.http.put("/documents/put", json=body)).raise_for_status()
    await opened.until_found(kb_id, ["before", "after", "put"])
    # What the reconciler then finds missing.
    await opened.database.document_index.delete_one({"document_id": "before"})
    await opened.until_found(kb_id, ["before", "after", "put"])
    await _follow_outcomes(opened, access)


async def _follow_outcomes(opened: SystemUnderTest, access: KafkaAccess) -> None:
    connection = access.connection_of(UPSTREAM, opened.stack.kafka)
    outcomes = PREFIX + topics.KB_EVENTS.name
    reader = consumer_client(connection, outcomes, group_id="upstream-tests", auto_offset_reset="earliest")
    await reader.start()
    try:
        async with asyncio.timeout(30):
            await reader.getone()
        await reader.commit()
    finally:
        await reader.stop()


async def _redrive_all(opened: SystemUnderTest) -> None:
    letters = (await opened.http.get("/dead-letters", params={"limit": 100})).raise_for_status().json()
    for letter in letters["dead_letters"]:
        await opened.http.post(f"/dead-letters/{letter['dead_letter_id']}/redrive")


Told = tuple[str, str, str, str]
"""Principal, operation, kind of resource and its name."""


def _describe(acl: Acl) -> Told:
    return acl.principal, acl.operation.name, acl.resource.name, acl.name


def _used(audited: KafkaBrokers) -> set[Told]:
    """The rules by which something was allowed."""
    log = audited.brokers[0].log.read_text()
    rules = [RULE.search(line) for line in log.splitlines() if " is Allowed operation" in line]
    return {(rule["principal"], rule["operation"], rule["kind"], rule["name"]) for rule in rules if rule}


def _are_used(audited: KafkaBrokers, rights: set[Told]) -> bool:
    return rights <= _used(audited)


def _is_any_denied(audited: KafkaBrokers, rights: set[Told]) -> bool:
    return bool(rights & _denied(audited))


def _denied(audited: KafkaBrokers) -> set[Told]:
    log = audited.brokers[0].log.read_text()
    decisions = [
        found for line in log.splitlines() if (found := DECISION.search(line)) and found["verdict"] == "Denied"
    ]
    return {
        (found["principal"], found["operation"], found["kind"].upper(), found["name"])
        for found in decisions
        if found["principal"] in PRINCIPALS
    }
