"""The programs of the page publish what they say, and the page says what the contracts say."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from kb_contracts.cloudevents import MAX_EVENT_BYTES
from kb_contracts.identifiers import IDENTIFIER_PATTERN
from kb_contracts.topics import DOCUMENT_EVENTS
from kb_local.broker import Broker
from kb_local.broker_contents import create_topics
from kb_local.ports import free_port
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.e2e.kafka_log import KafkaLog
from tests.e2e.system import SystemUnderTest, until
from tests.producers.batches import end_offsets, written_since
from tests.producers.clients import CODECS, execute
from tests.producers.page import PAGE, filled_in, prepare, programs

NAMES = (
    "Publish.java",
    "publish_librdkafka.py",
    "publish.go",
    "publish.mjs",
    "publish_cloudevent.py",
    "publish-cloudevent.mjs",
)
TEXT = "We offer forty widgets at three pounds each."


def test_the_page_has_a_program_for_each_client() -> None:
    assert tuple(programs()) == NAMES
    for name, program in programs().items():
        assert len(filled_in(program, bootstrap="b:1", topic="topic", document_id="id").splitlines()) <= 50, name


def test_the_page_says_what_keys_ids_codecs_and_sizes_are_allowed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert IDENTIFIER_PATTERN == "^[A-Za-z0-9._-]{1,128}$"
    assert "1 to 128 of `A-Z a-z 0-9 . _ -`" in page
    assert f"at most {MAX_EVENT_BYTES:,} bytes" in page
    assert "`{organization_id}/{document_id}`, of a tag event `{organization_id}/tag/{tag_id}`" in page
    assert "any codec of Kafka: gzip, snappy, lz4 or zstd" in page
    assert CODECS == ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.producers
@pytest.mark.parametrize("name", NAMES)
async def test_a_program_of_the_page_publishes_a_document(
    name: str, receiver: SystemUnderTest, document_events: str, tmp_path: Path
) -> None:
    document_id = f"page-{name}"
    begins = await end_offsets(receiver.stack.kafka, document_events)
    program = filled_in(
        programs()[name], bootstrap=receiver.stack.kafka, topic=document_events, document_id=document_id
    )

    await asyncio.to_thread(lambda: execute(prepare(name, program, tmp_path), folder=tmp_path))

    async def is_there() -> bool:
        answer = await receiver.http.get(f"/documents/{document_id}/text")
        return answer.status_code == 200 and answer.json()["text"] == TEXT

    await until(is_there, what=f"the document of {name}", every_s=0.2)
    document = (await receiver.http.get(f"/documents/{document_id}")).json()
    assert (document["document_name"], document["tag_ids"]) == ("Offer 17.pdf", ["offers"])
    assert abs(document["text_revision"] - _ms(document["upload_date"])) < 60_000
    written = await written_since(receiver.stack.kafka, begins)
    assert len(written.records) == 1
    assert written.violations() == []


@pytest.fixture(scope="module")
async def local_broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    broker = Broker(port=free_port(), log=tmp_path_factory.mktemp("broker") / "broker.log")
    await broker.start()
    await create_topics(KafkaConnection(broker.bootstrap), prefix="")
    yield broker
    await broker.stop()


@pytest.mark.producers
@pytest.mark.parametrize("name", NAMES)
async def test_a_program_of_the_page_runs_on_the_local_broker(name: str, local_broker: Broker, tmp_path: Path) -> None:
    topic = DOCUMENT_EVENTS.name
    program = filled_in(programs()[name], bootstrap=local_broker.bootstrap, topic=topic, document_id=f"local-{name}")

    await asyncio.to_thread(lambda: execute(prepare(name, program, tmp_path), folder=tmp_path))

    written = await KafkaLog(KafkaConnection(local_broker.bootstrap), "").read(DOCUMENT_EVENTS)
    assert f"local/local-{name}".encode() in {message.key for message in written}


def _ms(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)
