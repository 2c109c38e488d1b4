"""A process that is killed between a delivery and its record: the next one delivers again, under the same id."""

import base64
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx

from kb_api.webhooks import deliveries
from kb_client.webhooks import verify
from kb_local.ports import NO_TLS, free_port
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.service import Service
from kb_local.zygote import Zygote
from kb_shared.mongo.database import Database
from tests.integration.kb_api.webhook_receiver import Receiver
from tests.waiting import until

ORGANIZATION = "acme"
KEY = "kb_bootstrap_" + "x" * 32


async def test_a_process_killed_between_delivery_and_record_delivers_again_under_the_same_id(
    zygote: Zygote,
    search_node: SearchNodeProcess,
    model_server: ModelServerProcess,
    search_database: Database,
    tmp_path: Path,
) -> None:
    env = {
        "KB_MONGO_URI": search_node.uri,
        "KB_MONGO_DATABASE": search_database.name,
        "KB_KAFKA": f"127.0.0.1:{free_port()}",
        "KB_LOCAL_MODELS_API_BASE": model_server.api_base,
        "KB_EMBEDDING_MODEL": "hash-8",
        "KB_BOOTSTRAP_ADMIN_KEY": KEY,
        "KB_BOOTSTRAP_ORGANIZATION": ORGANIZATION,
        "KB_PROVIDER_KEYS": f"1:{base64.b64encode(bytes(32)).decode()}",
        "KB_ALLOW_PRIVATE_ADDRESSES": "on",
        "KB_FAILPOINT": "webhook.after_send",
    }
    service = Service("kb-api", package="kb_api", zygote=zygote, port=free_port(), log=tmp_path / "log", env=env)
    base, headers = f"/v0/orgs/{ORGANIZATION}", {"Authorization": f"Bearer {KEY}"}
    async with (
        Receiver().serve() as receiver,
        httpx.AsyncClient(trust_env=False, verify=NO_TLS, timeout=60, headers=headers) as client,
    ):
        await service.start()
        try:
            only = {"url": receiver.url, "event_types": ["knowledge_base.created.v1"]}
            hook = (await client.post(f"{service.url}{base}/webhooks", json=only)).json()
            # No broker is there: webhooks do not wait for Kafka.
            created = await client.post(f"{service.url}{base}/knowledge-bases", json={"name": "n"})
            assert created.status_code == 201, created.text
            await until(lambda: len(receiver.received) == 1, what="the delivery")
            await until(partial(_is_gone, client, service), what="the end of the process")
            await service.kill()
            del service.env["KB_FAILPOINT"]
            # The minute of the claim passes.
            await search_database[deliveries.NAME].update_many({}, {"$set": {"due_at": datetime.now(UTC)}})
            await service.start()
            await until(lambda: len(receiver.received) == 2, what="the repeated delivery")
        finally:
            await service.kill()
    events = [verify(body, headers, secrets=[hook["secret"]]) for headers, body in receiver.received]
    assert events[0] == events[1]
    assert len(set(receiver.ids)) == 1
    assert hook["secret"] not in service.log.read_text()


async def _is_gone(client: httpx.AsyncClient, service: Service) -> bool:
    try:
        await client.get(f"{service.url}/healthz")
    except httpx.TransportError:
        return True
    return False
