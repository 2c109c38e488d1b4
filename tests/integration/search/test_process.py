"""The service as a process: settings from the environment, a socket, a clean end."""

from pathlib import Path

import httpx
import pytest

from kb_local.ports import NO_TLS, free_port
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.service import Service
from kb_local.zygote import Zygote
from kb_search.settings import SearchSettings
from kb_shared.mongo.database import Database
from tests.conftest import RunningMongo
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller, key_for
from tests.integration.search.knowledge import DocumentToIndex, Knowledge

PEPPER = "of this process"


@pytest.fixture
def environment(
    search_node: RunningMongo | SearchNodeProcess, model_server: ModelServerProcess, search_database: Database
) -> dict[str, str]:
    return {
        "KB_MONGO_URI": search_node.uri,
        "KB_MONGO_DATABASE": search_database.name,
        "KB_LOCAL_MODELS_API_BASE": model_server.api_base,
        "KB_API_KEY_PEPPER": PEPPER,
    }


@pytest.fixture
def service(zygote: Zygote, environment: dict[str, str], tmp_path: Path) -> Service:
    return Service("search", "kb_search", zygote=zygote, port=free_port(), log=tmp_path / "search.log", env=environment)


async def test_the_service_answers_searches_until_it_is_asked_to_end(
    service: Service, search_database: Database, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["one canary-text"]))
    key = await key_for(search_database, SearchSettings.model_validate({"api_key_pepper": PEPPER}), ORGANIZATION)
    await service.start()
    async with httpx.AsyncClient(base_url=service.url, trust_env=False, verify=NO_TLS, timeout=60) as http:
        answer = await SearchingCaller(http, key).search(knowledge, "canary-query")
        metrics = (await http.get("/metrics")).text
    assert [result["content"] for result in answer["results"]] == ["one canary-text"]
    assert await service.stop() == 0
    log = service.log.read_text()
    assert '"event": "search.answered"' in log
    for text in (log, metrics):
        assert "canary" not in text
        assert key not in text
    assert 'kb_build_info{service="kb-search",version="' in metrics
    route = "/v0/orgs/{organization_id}/knowledge-bases/{kb_id}/search"
    assert f'kb_http_requests_total{{method="POST",route="{route}",status="200"}} 1.0' in metrics
    # Those of other services.
    assert "kb_reconciler_last_success_timestamp_seconds" not in {line.split(" ")[0] for line in metrics.splitlines()}
    assert "kb_outbox_pending" not in {line.split(" ")[0] for line in metrics.splitlines()}
