"""An organization's own server, such as Ollama or vLLM: any name of a model, whatever the address looks like."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from kb_api.bootstrap import KbApi, create_app, create_kb_api
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import _DIMENSION_PROBE as PROBE
from kb_shared.embedding.embedder import Embedded
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.vector_origin import origin_of
from kb_shared.errors import OtherVectors
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.keys import KnowledgeBaseKey
from tests.integration.kb_api.organization import OrganizationClient
from tests.own_servers import HeldModel, OwnServer, ollama, vllm


@pytest.fixture(scope="module")
async def open_api(api: KbApi) -> AsyncIterator[KbApi]:
    """Allow addresses of this machine."""
    settings = api.settings.model_copy(update={"allow_private_addresses": True})
    embedder = create_embedder(api.database, settings, patience_s=0.2)
    opened = create_kb_api(settings, database=api.database, embedder=embedder)
    yield opened
    await opened.provider_checks.close()
    await opened.webhook_sender.close()
    await opened.text_worker.close()
    await embedder.close()


@pytest.fixture
async def member(open_api: KbApi, organization: OrganizationClient) -> AsyncIterator[OrganizationClient]:
    transport = httpx.ASGITransport(create_app(open_api))
    async with httpx.AsyncClient(transport=transport, base_url="http://kb-api") as http:
        yield replace(organization, http=http, api=open_api)


async def put(member: OrganizationClient, provider: str, address: str, **more: Any) -> dict[str, Any]:
    return await member.ok("PUT", f"/llm-providers/{provider}", json={"api_base": address, **more})


async def check(member: OrganizationClient, provider: str, model: str | None = None) -> dict[str, Any]:
    body = {} if model is None else {"model": model}
    return await member.ok("POST", f"/llm-providers/{provider}/test", json=body)


def asked_models(server: OwnServer) -> set[str]:
    return {body["model"] for _, path, body in server.asked if path.startswith("/v1/") and "model" in body}


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/api", "/api/chat", "/v1/chat/completions"])
async def test_an_address_of_ollama_works_in_any_form(member: OrganizationClient, ending: str) -> None:
    async with ollama() as server:
        stored = await put(member, "ollama", server.root + ending)
        assert stored["api_base"] == f"{server.root}/v1"
        assert (await check(member, "ollama", "llama3.1:8b"))["ok"]


async def test_what_a_model_of_ollama_can_do_is_said_with_what_follows_where_it_can_not(
    member: OrganizationClient,
) -> None:
    async with ollama() as server:
        await put(member, "ollama", server.root)
        able = await check(member, "ollama")
        unable = await check(member, "ollama", "gemma:2b")
        embedding = await check(member, "ollama", "nomic-embed-text")

    assert [each["name"] for each in able["models"]] == ["llama3.1:8b", "gemma:2b", "nomic-embed-text:latest"]
    assert (able["model"], able["ok"]) == ("ollama/llama3.1:8b", True)
    abilities = {"calls_tools": True, "streams": True, "follows_schema": True, "max_input_tokens": 4096}
    assert able["abilities"] == abilities | {"refused_options": []}
    assert able["embeddings"] is None
    assert "OLLAMA_CONTEXT_LENGTH=16384" in " ".join(able["advice"])
    assert "knowledge bases need another model" in " ".join(able["advice"])
    assert unable["abilities"]["calls_tools"] is False
    assert "a run searches once, with the question" in " ".join(unable["advice"])
    assert embedding["ok"]
    assert (embedding["abilities"], embedding["embeddings"]) == (None, {"dimensions": 48, "max_input_tokens": 2048})
    assert "knowledge bases only" in " ".join(embedding["advice"])


async def test_what_vllm_says_of_its_context_and_of_tools_is_passed_on(member: OrganizationClient) -> None:
    async with vllm(api_key="secret") as server:
        await put(member, "vllm", server.root, api_key="secret")
        found = await check(member, "vllm")

    assert found["model"] == "hosted_vllm/meta-llama/Llama-3.1-8B-Instruct"
    assert found["models"] == [{"name": "meta-llama/Llama-3.1-8B-Instruct", "max_input_tokens": 32768}]
    assert (found["abilities"]["calls_tools"], found["abilities"]["max_input_tokens"]) == (False, 32768)
    assert "--enable-auto-tool-choice" in " ".join(found["advice"])


async def test_a_model_that_the_server_lacks_is_named_beside_those_that_it_has(member: OrganizationClient) -> None:
    async with ollama() as server:
        await put(member, "ollama", server.root)
        found = await check(member, "ollama", "qwen2.5:7b-instruct-q4_K_M")
    assert not found["ok"]
    assert "has no model" in found["error"]["message"]
    assert found["advice"][0].startswith("The server has no model qwen2.5:7b-instruct-q4_K_M, but: llama3.1:8b, ")
    assert "`ollama pull qwen2.5:7b-instruct-q4_K_M`" in found["advice"][1]


async def test_a_server_that_is_not_there_and_one_that_wants_a_key_are_told_apart(member: OrganizationClient) -> None:
    async with vllm(api_key="secret") as server:
        await put(member, "vllm", server.root)
        refused = await check(member, "vllm")
    gone = await check(member, "vllm")
    assert refused["error"]["type"] == "provider_auth"
    assert "`kb providers set vllm --key-from VARIABLE`" in " ".join(refused["advice"])
    assert not gone["ok"]
    assert f"host.docker.internal:{server.port}" in " ".join(gone["advice"])


@pytest.mark.parametrize(
    ("name", "at_server"),
    [
        ("qwen2.5:7b-instruct-q4_K_M", "qwen2.5:7b-instruct-q4_K_M"),
        ("openai/qwen2.5", "qwen2.5"),
        ("ollama/qwen2.5", "qwen2.5"),
        ("ollama_chat/qwen2.5", "qwen2.5"),
        ("hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"),
        ("ollama/hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4", "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("text-embedding-3-small", "text-embedding-3-small"),
    ],
)
async def test_a_knowledge_base_can_have_a_model_of_a_server_under_any_name(
    member: OrganizationClient, name: str, at_server: str
) -> None:
    await member.ok("POST", "/tags", json={"tag_id": "t", "name": "t"})
    async with ollama({at_server: HeldModel(dimensions=48)}) as server:
        await put(member, "ollama", server.root)
        body = {"name": "kb", "tag_ids": ["t"], "embedding_model": name}
        kb = await member.ok("POST", "/knowledge-bases", json=body)
        assert (kb["embedding_model"], kb["embedding_dimensions"]) == (name, 48)
        assert asked_models(server) == {at_server}


async def test_a_plain_name_may_be_a_model_of_two_servers_and_is_asked_about(member: OrganizationClient) -> None:
    await member.ok("POST", "/tags", json={"tag_id": "t", "name": "t"})
    async with ollama() as one, vllm() as two:
        await put(member, "ollama", one.root)
        await put(member, "vllm", two.root)
        body = {"name": "kb", "tag_ids": ["t"], "embedding_model": "nomic-embed-text"}
        refused = await member.request("POST", "/knowledge-bases", json=body)
        assert refused.status_code == 422
        assert "ollama/nomic-embed-text or hosted_vllm/nomic-embed-text" in refused.json()["detail"]
        assert not asked_models(one) | asked_models(two)


async def test_a_name_in_no_list_says_how_a_server_is_made_known(member: OrganizationClient) -> None:
    await member.ok("POST", "/tags", json={"tag_id": "t", "name": "t"})
    body = {"name": "kb", "tag_ids": ["t"], "embedding_model": "nomic-embed-text"}
    refused = await member.request("POST", "/knowledge-bases", json=body)
    assert (refused.status_code, refused.json()["type"]) == (422, "unknown-model")
    assert "kb providers set ollama|vllm|openai-compatible --api-base URL" in refused.json()["detail"]


async def test_a_private_address_is_refused_with_the_setting_that_allows_it(organization: OrganizationClient) -> None:
    body = {"api_base": "http://127.0.0.1:11434"}
    refused = await organization.request("PUT", "/llm-providers/ollama", json=body)
    assert refused.status_code == 422
    assert "KB_ALLOW_PRIVATE_ADDRESSES=true" in refused.json()["detail"]
    unclear = await organization.request("PUT", "/llm-providers/ollama", json={"api_base": "127.0.0.1:11434"})
    assert "begins with http:// or https://" in unclear.json()["detail"]
    without = await organization.request("PUT", "/llm-providers/vllm", json={})
    assert "`api_base` must be the address of your server" in without.json()["detail"]
    keyless = await organization.request("PUT", "/llm-providers/openai", json={})
    assert "`api_key` must be given" in keyless.json()["detail"]


async def test_vectors_of_two_models_of_one_name_are_not_mixed_and_a_server_that_moved_is_recognized(
    member: OrganizationClient,
) -> None:
    await member.ok("POST", "/tags", json={"tag_id": "t", "name": "t"})
    embedder, name = member.api.embedder, "ollama/nomic-embed-text"
    purpose = Purpose(member.organization_id, None, "index", "document")
    model = {"nomic-embed-text:latest": HeldModel(dimensions=48)}
    async with (
        ollama(model) as before,
        ollama(model) as moved,
        ollama({"nomic-embed-text:latest": HeldModel(dimensions=48, seed="another model")}) as other,
    ):
        await put(member, "ollama", before.root)
        body = {"name": "kb", "tag_ids": ["t"], "embedding_model": name}
        created = await member.ok("POST", "/knowledge-bases", json=body)
        kb = await knowledge_bases.get(member.database, KnowledgeBaseKey(member.organization_id, created["kb_id"]))

        async def embed() -> Embedded:
            return await embedder.embed(["x"], model=name, dimensions=48, purpose=purpose, origin=origin_of(kb))

        first = await embed()
        await put(member, "ollama", other.root)
        with pytest.raises(OtherVectors, match="store the former address"):
            await embed()
        assert [body["input"] for _, path, body in other.asked if path == "/v1/embeddings"] == [[PROBE]]
        await put(member, "ollama", moved.root)
        again = await embed()
        assert (again.vectors[0] == first.vectors[0]).all()
        # The same name at another address has vectors of its own, which are paid for.
        assert again.generated == 1


async def test_a_key_stays_with_its_address_and_is_not_sent_to_another(member: OrganizationClient) -> None:
    async with vllm(api_key="secret") as server, vllm(api_key="secret") as other:
        await put(member, "vllm", server.root, api_key="secret")
        await put(member, "vllm", server.root, requests_per_minute=600)
        assert (await check(member, "vllm"))["ok"]
        await put(member, "vllm", other.root)
        assert (await check(member, "vllm"))["error"]["type"] == "provider_auth"
