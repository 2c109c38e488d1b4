import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
import structlog

from kb_api.provider_keys import reseal_keys
from kb_shared.errors import ProviderKeyMissing
from kb_shared.mongo import circuits, index_jobs, llm_providers, rate_limits, spu_ledger
from kb_shared.mongo.circuit import CallPermission, Cause, failed
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.providers.quiet_litellm import litellm
from kb_shared.secrets.key_ring import KeyRing
from tests.integration.kb_api.organization import OrganizationClient
from tests.stored_jobs import jobs_of_kb

SECRET = "sk-0123456789-canary-wxyz"
PUBLIC = "https://proxy.example/v1"


@pytest_asyncio.fixture
async def resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name is a public server's; addresses stay what they are, such as that of MongoDB."""
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def public(host: str, *args: Any, **options: Any) -> list[Any]:
        if host[0].isdigit():
            return await resolve(host, *args, **options)
        return [(None, None, None, "", ("8.8.8.8", 443))]

    monkeypatch.setattr(loop, "getaddrinfo", public)


@pytest.mark.usefixtures("resolved")
async def test_a_key_is_kept_sealed_and_never_shown_again(organization: OrganizationClient) -> None:
    with structlog.testing.capture_logs() as logged:
        put = await organization.ok(
            "PUT", "/llm-providers/openai", json={"api_key": SECRET, "api_base": PUBLIC + "/", "tokens_per_minute": 9}
        )
        got = await organization.ok("GET", "/llm-providers/openai")
    row = await organization.database[llm_providers.NAME].find_one({"organization_id": organization.organization_id})
    assert put == got
    assert {name: got[name] for name in ("provider", "api_key_last4", "api_base", "requests_per_minute")} == {
        "provider": "openai",
        "api_key_last4": "wxyz",
        "api_base": PUBLIC,
        "requests_per_minute": None,
    }
    for shown in (put, got, row, logged):
        assert "canary" not in str(shown)


@pytest.mark.usefixtures("resolved")
async def test_an_organizations_key_takes_effect_at_once_and_for_no_other_organization(
    organization: OrganizationClient, new_organization: Any
) -> None:
    models = organization.api.embedder.models
    name = "text-embedding-3-small"
    with pytest.raises(ProviderKeyMissing):
        await models.get(organization.organization_id, name)
    await organization.ok("PUT", "/llm-providers/openai", json={"api_key": SECRET, "requests_per_minute": 60})
    model = await models.get(organization.organization_id, name)
    assert (model.api_key, model.api_base) == (SECRET, "https://api.openai.com/v1")
    assert model.access is not None
    assert model.access.requests_per_minute == 60

    await organization.ok("PUT", "/llm-providers/openai", json={"api_key": SECRET, "api_base": PUBLIC})
    moved = await models.get(organization.organization_id, name)
    assert moved.api_base == PUBLIC
    assert moved.fingerprint != model.fingerprint

    other = await new_organization()
    with pytest.raises(ProviderKeyMissing):
        await models.get(other.organization_id, name)

    await organization.ok("DELETE", "/llm-providers/openai")
    with pytest.raises(ProviderKeyMissing):
        await models.get(organization.organization_id, name)
    assert await organization.refused("GET", "/llm-providers/openai") == (404, "not-found")
    assert await organization.refused("DELETE", "/llm-providers/openai") == (404, "not-found")


async def test_a_new_key_is_tried_though_the_old_one_was_refused(organization: OrganizationClient) -> None:
    circuit_id = CircuitId(organization.organization_id, "fingerprint", "text-embedding-3-small")
    await circuits.change(
        organization.database,
        circuit_id,
        lambda before, now: (
            failed(before, CallPermission(before.generation, is_circuit_probe=False), cause=Cause.KEY, now=now),
            None,
        ),
    )
    assert (await circuits.read(organization.database, circuit_id))[0].cause is Cause.KEY
    await organization.ok("PUT", "/llm-providers/openai", json={"api_key": SECRET})
    assert (await circuits.read(organization.database, circuit_id))[0].cause is None


@pytest.mark.parametrize(
    "api_base",
    [
        "http://proxy.example/v1",
        "https://127.0.0.1/v1",
        "https://[::1]/v1",
        "https://2130706433/v1",
        "https://169.254.169.254/latest",
        "https://localhost/v1",
        "https://user:password@8.8.8.8/v1",
        "https://8.8.8.8/v1?key=1",
        "https://8.8.8.8:99999/v1",
        "https:///v1",
        "file:///etc/passwd",
        "8.8.8.8",
    ],
)
async def test_an_address_that_is_not_https_and_public_is_refused(
    organization: OrganizationClient, api_base: str
) -> None:
    body = {"api_key": SECRET, "api_base": api_base}
    response = await organization.request("PUT", "/llm-providers/openai", json=body)
    assert (response.status_code, response.json()["type"]) == (422, "validation-error")
    assert [problem["field"] for problem in response.json()["fields"]] == ["api_base"]
    assert await organization.refused("GET", "/llm-providers/openai") == (404, "not-found")


@pytest.mark.parametrize("error_type", ["provider_auth", "provider_key_missing", "provider_quota", "rate_limited"])
async def test_jobs_that_wait_for_a_key_are_due_when_there_is_another(
    organization: OrganizationClient, error_type: str
) -> None:
    kb = await organization.create()
    for document_id, waits_for in (("d", error_type), ("e", "provider_outage")):
        job = await organization.running_job(kb["kb_id"], document_id)
        await index_jobs.postpone(
            organization.database, job, delay=timedelta(hours=1), error_type=waits_for, error_message="m"
        )
    bucket = Bucket.of_model(organization.organization_id, "m", requests_per_minute=None, tokens_per_minute=1)
    await rate_limits.reserve(organization.database, bucket, requests=0, tokens=100, longest_wait_s=10_000)

    await organization.ok("PUT", "/llm-providers/openai", json={"api_key": SECRET})

    jobs = jobs_of_kb(organization.database, KnowledgeBaseKey(organization.organization_id, kb["kb_id"]))
    assert {job.document_id: job.postponed_until is None async for job in jobs} == {"d": True, "e": False}
    owing = {"_id": bucket.row_id}
    assert await organization.database[rate_limits.NAME].count_documents(owing) == 0


@pytest.mark.usefixtures("resolved")
@pytest.mark.parametrize(
    ("provider", "body", "field"),
    [
        ("openai", {}, "api_key"),
        ("openai", {"api_key": ""}, "api_key"),
        ("openai", {"api_key": "with space"}, "api_key"),
        ("openai", {"api_key": SECRET, "requests_per_minute": 0}, "requests_per_minute"),
        ("openai", {"api_key": SECRET, "tokens_per_minute": "9"}, "tokens_per_minute"),
        ("openai", {"api_key": SECRET, "key": 1}, "key"),
        ("mistral", {"api_key": SECRET, "api_base": PUBLIC}, "api_base"),
        ("azure", {"api_key": SECRET}, "api_base"),
        ("azure", {"api_key": SECRET, "api_base": PUBLIC}, "api_base"),
    ],
)
async def test_an_invalid_field_is_named(
    organization: OrganizationClient, provider: str, body: dict[str, Any], field: str
) -> None:
    response = await organization.request("PUT", f"/llm-providers/{provider}", json=body)
    assert response.status_code == 422
    assert [problem["field"] for problem in response.json()["fields"]] == [field]
    assert SECRET not in response.text


async def test_providers_are_a_closed_set(organization: OrganizationClient) -> None:
    refused = await organization.request("PUT", "/llm-providers/exotic", json={"api_key": SECRET})
    assert refused.status_code == 422
    assert "`provider` must be one of anthropic, azure," in refused.json()["detail"]


async def test_the_end_of_a_short_key_is_not_shown(organization: OrganizationClient) -> None:
    put = await organization.ok("PUT", "/llm-providers/mistral", json={"api_key": "short"})
    assert put["api_key_last4"] is None


async def test_after_a_new_key_came_first_in_the_ring_the_old_one_is_not_needed_any_more(
    organization: OrganizationClient,
) -> None:
    await organization.ok("PUT", "/llm-providers/mistral", json={"api_key": SECRET})
    database, old = organization.database, bytes([2]) * 32
    both = KeyRing({"3": bytes([3]) * 32, "2": old})
    await reseal_keys(database, both)
    kept = await llm_providers.find(database, organization.organization_id, "mistral")
    assert kept is not None
    assert kept.sealed.key_id == "3"
    bound = {"organization_id": organization.organization_id, "provider": "mistral"}
    assert KeyRing({"3": bytes([3]) * 32}).open(kept.sealed, **bound) == SECRET
    # As the others of this run expect it.
    await reseal_keys(database, KeyRing({"2": old, "3": bytes([3]) * 32}))


async def test_models_are_listed_with_whether_there_is_a_key_for_them(organization: OrganizationClient) -> None:
    async def listed() -> dict[str, dict[str, Any]]:
        pages = [await organization.ok("GET", "/embedding-models", limit=100, skip=skip) for skip in (0, 100)]
        models = [model for page in pages for model in page["embedding_models"]]
        assert pages[0]["total_count"] == len(models)
        return {model["name"]: model for model in models}

    before = await listed()
    assert before["all-MiniLM-L6-v2"] == {
        "name": "all-MiniLM-L6-v2",
        "provider": "local",
        "dimensions": 384,
        "max_input_tokens": 256,
        "usd_per_million_tokens": 0.0,
        "usd_per_embedding": 0.0,
        "key_present": True,
    }
    assert before["use-multilingual-v3"]["key_present"]
    assert before["text-embedding-3-small"]["dimensions"] == 1536
    assert before["text-embedding-3-small"]["usd_per_million_tokens"] == 0.02
    assert not before["text-embedding-3-small"]["key_present"]
    await organization.ok("PUT", "/llm-providers/openai", json={"api_key": SECRET})
    after = await listed()
    assert after["text-embedding-3-small"]["key_present"]
    assert not after["mistral/mistral-embed"]["key_present"]


async def test_providers_and_the_models_that_can_be_used_are_listed(organization: OrganizationClient) -> None:
    assert await organization.ok("GET", "/llm-providers") == {"llm_providers": [], "total_count": 0}
    usable = await organization.ok("GET", "/embedding-models", key_present=True, limit=100)
    await organization.ok("PUT", "/llm-providers/mistral", json={"api_key": SECRET})
    listed = await organization.ok("GET", "/llm-providers")
    assert [each["provider"] for each in listed["llm_providers"]] == ["mistral"]
    assert SECRET not in str(listed)
    more = await organization.ok("GET", "/embedding-models", key_present=True, limit=100)
    assert more["total_count"] == len(more["embedding_models"]) > usable["total_count"]
    added = [each for each in more["embedding_models"] if each not in usable["embedding_models"]]
    assert {each["provider"] for each in added} == {"mistral"}
    others = await organization.ok("GET", "/embedding-models", key_present=False)
    every = await organization.ok("GET", "/embedding-models")
    assert others["total_count"] + more["total_count"] == every["total_count"]


async def test_a_paused_provider_is_shown_and_its_documents_are_due_at_once_when_it_resumes(
    organization: OrganizationClient,
) -> None:
    await organization.ok("PUT", "/llm-providers/mistral", json={"api_key": SECRET})
    kb_id = (await organization.create())["kb_id"]
    for document_id, error_type in (("waits", "provider_paused"), ("limited", "rate_limited")):
        await index_jobs.postpone(
            organization.database,
            await organization.running_job(kb_id, document_id),
            delay=timedelta(hours=1),
            error_type=error_type,
            error_message="paused: POST /llm-providers/mistral/resume",
            count_attempt=False,
        )
    paused = await organization.ok("POST", "/llm-providers/mistral/pause")
    assert await organization.ok("POST", "/llm-providers/mistral/pause") == paused
    assert (await organization.ok("GET", "/llm-providers/mistral"))["paused_at"] == paused["paused_at"] is not None
    explained = await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents/waits/explain")
    assert "POST /llm-providers/mistral/resume" in explained["reason"]

    assert (await organization.ok("POST", "/llm-providers/mistral/resume"))["paused_at"] is None
    assert (await organization.ok("GET", "/llm-providers/mistral"))["paused_at"] is None
    listed = (await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents", status="pending"))["documents"]
    assert {one["document_id"]: one["next_attempt_at"] is None for one in listed} == {"waits": True, "limited": False}
    for call in ("pause", "resume"):
        assert await organization.refused("POST", f"/llm-providers/unknown/{call}") == (404, "not-found")


async def test_a_test_of_a_provider_says_what_is_wrong_without_the_key_and_charges_nothing(
    organization: OrganizationClient, provider: Callable[..., Awaitable[None]]
) -> None:
    answered = await organization.ok("POST", "/llm-providers/local/test", json={})
    assert (answered["model"], answered["ok"], answered["error"]) == ("hash-16", True, None)
    await provider({"status": 401})
    refused = await organization.ok("POST", "/llm-providers/local/test", json={"model": "hash-32"})
    assert (refused["model"], refused["ok"], refused["error"]["type"]) == ("hash-32", False, "provider_auth")
    await provider({"status": 429})
    limited = await organization.ok("POST", "/llm-providers/local/test", json={})
    assert limited["error"]["type"] == "provider_429"
    await provider()
    assert (await organization.ok("POST", "/llm-providers/local/test", json={}))["ok"]
    chat = await organization.ok("POST", "/llm-providers/local/test", json={"model": "demo-extractive"})
    assert (chat["ok"], chat["model"]) == (True, "demo-extractive")
    assert chat["abilities"] == {
        "calls_tools": False,
        "streams": True,
        "follows_schema": True,
        "max_input_tokens": None,
        "refused_options": [],
    }
    assert answered["abilities"] is None
    assert await spu_ledger.sum_spus(organization.database, organization.organization_id) == 0

    missing = await organization.ok("POST", "/llm-providers/anthropic/test", json={})
    assert missing["error"]["type"] == "provider_key_missing"
    wrong = {"model": "text-embedding-3-small"}
    assert await organization.refused("POST", "/llm-providers/mistral/test", json=wrong) == (422, "unknown-model")
    assert await organization.refused("POST", "/llm-providers/unknown/test", json={}) == (404, "not-found")


async def test_a_test_of_a_provider_does_not_repeat_what_the_provider_answers(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await organization.ok("PUT", "/llm-providers/mistral", json={"api_key": SECRET})

    async def refuse(**request: Any) -> Any:
        raise litellm.AuthenticationError(f"no such key: {request['api_key']}", "mistral", "mistral-embed")

    monkeypatch.setattr(litellm, "aembedding", refuse)
    with structlog.testing.capture_logs() as logged:
        refused = await organization.ok("POST", "/llm-providers/mistral/test", json={})
    assert (refused["ok"], refused["error"]["type"]) == (False, "provider_auth")
    assert "canary" not in str((refused, logged))
