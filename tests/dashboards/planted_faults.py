"""Everything that a dashboard shows and that a healthy system does not have, once each."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx
from aiokafka.admin import AIOKafkaAdminClient
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from kb_contracts import topics
from kb_local.ports import NO_TLS
from kb_shared.kafka.topics import ensure_topics
from kb_shared.mongo import budgets, embedding_cache, leases, outbox, schema_version
from kb_shared.mongo.database import in_transaction
from observability.dashboards.overview import OF_API_AND_MODELS
from tests.chaos.workload import UPLOADED, Upstream, paragraph
from tests.dashboards.conftest import SECOND_INDEXER, WatchedSystem
from tests.dashboards.everyday import quietly
from tests.dashboards.prometheus_answers import PrometheusAnswers
from tests.e2e.system import SystemUnderTest, until

MIGRATES_AGAIN_AFTER: Final = timedelta(seconds=15)
REFUSED_MODEL: Final = "hash-32"
LARGE: Final = 40
"""Documents of a KB of which so many are removed that the reconciler stops."""
LATE: Final = timedelta(minutes=20)
"""Age of an event that is later than every objective."""


@dataclass(frozen=True, slots=True)
class PlantedFaults:
    watched: WatchedSystem
    answers: PrometheusAnswers
    upstream: Upstream
    tag_id: str

    @property
    def system(self) -> SystemUnderTest:
        return self.watched.system

    @property
    def database(self) -> AsyncDatabase[dict[str, Any]]:
        return self.system.database

    async def plant_all(self) -> None:
        await self.refuse_a_record()
        await self.refuse_a_message()
        await self.refuse_a_key()
        await self.use_up_a_rate_limit()
        await self.lose_documents()
        await self.change_spending()
        await self.fail_chat_models()
        await self.slow_down_provider()
        await self.fail_provider()
        await self.lose_vectors()
        await self.kill_mongod()
        await self.freeze_broker()
        await self.replace_broker()
        await self.replace_topic()
        await self.stop_an_indexer()
        await self.pass_runs_on()
        await self.wait_for_a_migration()

    async def refuse_a_record(self) -> None:
        await self.system.kafka.send(topics.DOCUMENT_EVENTS, b"broken", b"not json")

    async def refuse_a_message(self) -> None:
        """Leave a message in the outbox that is too large for its topic."""

        async def work(session: Any) -> None:
            received = outbox.ReceivedRecord(topics.KB_EVENTS.name, b"large", bytes(3_000_000), [], "")
            await outbox.add_records(self.database, session, [received], ordering="large")

        await in_transaction(self.database, work)

    async def refuse_a_key(self) -> None:
        """Have the provider of another model refuse the key: its circuit opens, and stays open."""
        await self.create_knowledge_base("refused", embedding_model=REFUSED_MODEL)
        await self.program()
        await self.publish("refused", 1)

    async def use_up_a_rate_limit(self) -> None:
        await self.create_knowledge_base("limited", rate_limits={"requests_per_minute": 5})
        await self.publish("limited", 30)
        # It waits behind the others until the oldest documents are looked for.
        await self.publish_late("limited")

    async def lose_documents(self) -> None:
        kb_id = await self.create_knowledge_base("large")
        await self.publish("large", LARGE)
        await self.wait_for_documents(kb_id, LARGE)
        # Drift that is repaired, and drift that looks like lost data.
        await self.database["document_index"].delete_one({"kb_id": kb_id, "document_id": "large-0"})
        lost = [f"large-{number}" for number in range(1, 31)]
        await self.database["documents"].delete_many({"document_id": {"$in": lost}})

    async def change_spending(self) -> None:
        limits = {"soft": 1_000_000, "hard": 1_000_000}
        (await self.system.http.put("/budget", json=limits)).raise_for_status()
        await self.database[budgets.NAME].update_many({}, {"$inc": {"used": 100}})
        await self.answers.until_true('kb_reconciler_drift{kind="spent_differs"} > 0')

    async def fail_chat_models(self) -> None:
        await self.run_model("scripted-passing", {"status": 429}, {"status": 500}, {"text": "Yes."})
        # A rate does not see the first increase of a counter.
        for _ in range(3):
            await self.run_model("scripted-failing", {"status": 500})

    async def slow_down_provider(self) -> None:
        await self.program(delay_ms=900)
        await self.answers.until_true("kb:search_latency:error_ratio5m > 0")

    async def fail_provider(self) -> None:
        """Limit and fail calls while a document waits that is late already."""
        await self.program({"status": 429, "probability": 0.5}, {"status": 500})
        await self.publish_late(self.tag_id)
        await self.answers.until_true(
            'rate(kb_provider_responses_total{status_class="429"}[15s]) > 0',
            'rate(kb_provider_responses_total{status_class="5xx"}[15s]) > 0',
            "kb:search:error_ratio5m > 0",
            'kb_circuits_opened_total{cause="outage"} > 0',
        )
        await self.program()

    async def lose_vectors(self) -> None:
        """Have MongoDB refuse to store vectors."""
        namespace = f"{self.database.name}.{embedding_cache.NAME}"
        data = {
            "failCommands": ["update", "insert"],
            "namespace": namespace,
            "errorCode": 11602,
            "closeConnection": False,
        }
        async with AsyncMongoClient[dict[str, Any]](self.system.stack.mongod_uri) as client:
            await client.admin.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data})
            await self.answers.until_true("kb_embeddings_lost_total > 0")
            await client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})

    async def kill_mongod(self) -> None:
        """Kill the only member, while documents and requests come."""
        await self.watched.mongod.kill()
        failed = f'rate(kb_http_requests_total{{{OF_API_AND_MODELS},status=~"5.."}}[15s]) > 0'
        await self.answers.until_true("kb_consumer_retries_total > 0", failed)
        await self.watched.mongod.start()

    async def freeze_broker(self) -> None:
        broker = self.system.stack.server("broker")
        await broker.pause()
        await self.publish_over_http("frozen")
        await self.answers.until_true(
            "kb_outbox_oldest_age_seconds > 0",
            "kb_consumer_commit_failures_total > 0",
            "kb_consumer_survey_failures_total > 0",
        )
        broker.resume()

    async def replace_broker(self) -> None:
        await self.system.stack.restart_broker()

    async def replace_topic(self) -> None:
        """Delete a topic while it is read, and create it again."""
        connection = self.system.stack.kafka_connection
        admin = AIOKafkaAdminClient(bootstrap_servers=self.system.stack.kafka)
        await admin.start()
        try:
            await admin.delete_topics([topics.DOCUMENT_EVENTS.name])
        finally:
            await admin.close()
        await ensure_topics(connection, topics.TOPICS)
        await self.answers.until_true("kb_consumer_replaced_logs_total > 0")

    async def stop_an_indexer(self) -> None:
        await self.system.stack.kill(SECOND_INDEXER)
        await self.answers.until_true('up{job="kb-indexer"} == 0')
        await self.system.stack.start_service(SECOND_INDEXER)

    async def pass_runs_on(self) -> None:
        """End the runner of sources in the middle of a run, which the next one continues."""
        await self.answers.until_true('kb_source_runs_open{state="running"} > 0')
        await self.system.stack.stop_service("kb_knowledge.runner")
        await self.system.stack.start_service("kb_knowledge.runner")
        await self.answers.until_true("kb_source_runs_continued_total > 0")

    async def wait_for_a_migration(self) -> None:
        """Restart the reconciler on data of an older version, while another one makes the migration."""
        await leases.acquire(self.database, "migrations", owner="another", length=MIGRATES_AGAIN_AFTER)
        await self.database[schema_version.NAME].update_one({"_id": schema_version.ID}, {"$set": {"schema_version": 1}})
        await self.system.stack.stop_service("kb_reconciler")
        await self.system.stack.start_service("kb_reconciler")
        await self.answers.until_true("kb_migrations_pending > 0")

    async def create_knowledge_base(self, tag_id: str, **options: Any) -> str:
        await self.system.create_tags(tag_id)
        kb_id = await self.system.create_knowledge_base(tag_id, **options)
        await self.system.until_active(kb_id)
        return kb_id

    async def publish(self, tag_id: str, number: int) -> None:
        names = [f"{tag_id}-{each}" for each in range(number)]
        await self.system.events.publish_all(
            [self.upstream.ocr(name, [paragraph(name)], tags=[tag_id]) for name in names]
        )

    async def publish_late(self, tag_id: str) -> None:
        """Publish a document whose event is old already."""
        name = f"late-{tag_id}"
        event = self.upstream.ocr(name, [paragraph(name)], tags=[tag_id])
        await self.system.events.publish(event, time=datetime.now(UTC) - LATE)

    async def wait_for_documents(self, kb_id: str, number: int) -> None:
        async def all_are_indexed() -> bool:
            answer = await self.system.http.get(f"/knowledge-bases/{kb_id}")
            return bool(answer.raise_for_status().json()["document_count"] >= number)

        await until(all_are_indexed)

    async def publish_over_http(self, document_id: str) -> None:
        body = {
            "document_name": document_id,
            "tag_ids": [self.tag_id],
            "upload_date": UPLOADED.isoformat(),
            "text": paragraph(document_id),
        }
        await quietly(self.system.http.put(f"/documents/{document_id}", json=body))

    async def run_model(self, model: str, *turns: dict[str, Any]) -> None:
        """Have a chat model answer a question with these turns, which may fail."""
        async with self.model_server() as admin:
            (await admin.put("/admin/chat", json={"model": model, "turns": turns})).raise_for_status()
        question = {"role": "user", "content": "Is it?"}
        await quietly(self.system.http.post("/runs", json={"messages": [question], "model": model}))

    async def program(self, *faults: dict[str, Any], delay_ms: float = 0) -> None:
        refused = {"status": 401, "model": REFUSED_MODEL}
        async with self.model_server() as admin:
            answer = await admin.put("/admin/hash", json={"delay_ms": delay_ms, "faults": [refused, *faults]})
            answer.raise_for_status()

    def model_server(self) -> httpx.AsyncClient:
        model_server = self.system.stack.model_server
        assert model_server is not None
        return httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS)
