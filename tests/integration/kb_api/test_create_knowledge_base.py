import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from kb_api import create_knowledge_base
from kb_api.bootstrap import KbApi, create_app, create_kb_api
from kb_api.settings import ApiSettings
from kb_contracts.cloudevents import decode
from kb_contracts.outcomes import KB_EVENTS, KnowledgeBaseCreated
from kb_shared.chunking import chunk, outline
from kb_shared.embedding import late_models
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.models import MAX_DIMENSIONS
from kb_shared.mongo import backfills, kb_slots, knowledge_bases, organizations, outbox, spu_ledger
from kb_shared.prices import Prices
from tests.hostile_provider import Behaviour, gives_vectors, gzip_bomb, hostile_provider
from tests.integration.kb_api.conftest import MODEL, NewOrganization
from tests.integration.kb_api.organization import OrganizationClient


async def rows_of(organization: OrganizationClient, collection: str) -> list[dict[str, Any]]:
    return await organization.database[collection].find({"organization_id": organization.organization_id}).to_list()


async def test_a_name_is_enough_and_everything_else_has_a_default(organization: OrganizationClient) -> None:
    kb = await organization.create(name="Handbooks")
    expected = {
        "name": "Handbooks",
        "description": "",
        "tag_ids": [],
        "dead_tag_ids": [],
        "chunker_type": "recursive",
        "chunk_size": 512,
        "chunk_overlap": 128,
        "embedding_model": MODEL,
        "embedding_dimensions": 16,
        "coalesce_neighbors": 0,
        "min_score": None,
        "text_analyzer": "lucene.standard",
        "text_normalization": 3,
        "filterable_metadata": [],
        "max_chunks_per_document": 2000,
        "rate_limits": {"requests_per_minute": None, "tokens_per_minute": None},
        "refuse_sensitive": False,
        "status": "creating",
        "warnings": [],
        "document_count": 0,
        "chunk_count": 0,
        "last_searched_at": None,
    }
    assert {name: kb[name] for name in expected} == expected
    assert datetime.fromisoformat(kb["created_at"]).utcoffset() is not None
    assert kb["created_by"] == organization.key.split("_")[1]


async def test_a_created_knowledge_base_is_read_back_unchanged(organization: OrganizationClient) -> None:
    await organization.tag("t1", "t2")
    created = await organization.create(
        name="Ünïcode \N{GRINNING FACE}",
        description="d",
        tag_ids=["t2", "t1", "t2"],
        chunker_type="word",
        chunk_size=100,
        chunk_overlap=10,
        embedding_model="hash-24",
        min_score=0.5,
        filterable_metadata=["year", "lang", "year"],
        max_chunks_per_document=10,
    )
    assert await organization.ok("GET", f"/knowledge-bases/{created['kb_id']}") == created
    assert created["tag_ids"] == ["t2", "t1"]
    assert created["embedding_dimensions"] == 24
    assert created["filterable_metadata"] == ["year", "lang"]


async def test_no_limit_of_chunks_is_the_deployments_limit(organization: OrganizationClient) -> None:
    created = await organization.create(max_chunks_per_document=0)
    assert created["max_chunks_per_document"] == 2000
    assert (await organization.stored(created["kb_id"])).max_chunks_per_document == 2000
    with pytest.raises(ValidationError):
        ApiSettings(max_chunks_per_document=0)


async def test_the_answer_says_where_the_knowledge_base_is(organization: OrganizationClient) -> None:
    response = await organization.request("POST", "/knowledge-bases", json={"name": "n"})
    assert response.status_code == 201
    assert response.headers["location"] == f"{organization.base}/knowledge-bases/{response.json()['kb_id']}"


async def test_the_row_its_slots_its_scan_and_its_event_come_together(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    slots = await rows_of(organization, kb_slots.NAME)
    assert {(slot["kb_id"], slot["state"], slot["tags_version"]) for slot in slots} == {(kb_id, "live", 1)}
    assert len(slots) == kb_slots.SLOTS_PER_KB
    assert [scan["kb_id"] for scan in await rows_of(organization, backfills.NAME)] == [kb_id]
    message = await organization.database[outbox.NAME].find_one({"ordering": kb_id})
    assert message is not None
    assert message["key"] == f"{organization.organization_id}/{kb_id}"
    _, event = decode(message["value"], KB_EVENTS)
    assert event == KnowledgeBaseCreated(organization_id=organization.organization_id, kb_id=kb_id)


async def test_the_test_embedding_is_charged(organization: OrganizationClient) -> None:
    await organization.create()
    assert await spu_ledger.sum_spus(organization.database, organization.organization_id) == 1


async def test_tags_must_be_known_and_the_answer_names_those_that_are_not(organization: OrganizationClient) -> None:
    await organization.tag("known")
    response = await organization.request(
        "POST", "/knowledge-bases", json={"name": "n", "tag_ids": ["known", "zz", "aa"]}
    )
    problem = response.json()
    assert (response.status_code, problem["type"], problem["tag_ids"]) == (422, "unknown-tag", ["aa", "zz"])


async def test_another_organizations_tag_is_unknown(
    organization: OrganizationClient, new_organization: Callable[..., Awaitable[OrganizationClient]]
) -> None:
    await (await new_organization()).tag("theirs")
    asked = {"name": "n", "tag_ids": ["theirs"]}
    assert await organization.refused("POST", "/knowledge-bases", json=asked) == (422, "unknown-tag")


@pytest.mark.parametrize(
    ("model", "slug"), [("no-such-model", "unknown-model"), ("text-embedding-3-small", "provider-key-missing")]
)
async def test_a_model_that_cannot_be_used_is_refused(
    organization: OrganizationClient, model: str, slug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = {"name": "n", "embedding_model": model}
    assert await organization.refused("POST", "/knowledge-bases", json=asked) == (422, slug)


async def test_nothing_is_left_behind_when_the_provider_is_away(
    organization: OrganizationClient, provider: Callable[..., Awaitable[None]]
) -> None:
    await provider({"status": 503, "retry_after_s": 3})
    response = await organization.request("POST", "/knowledge-bases", json={"name": "n"})
    assert (response.status_code, response.json()["type"]) == (503, "provider-unavailable")
    assert response.headers["retry-after"] == "3"
    for collection in (knowledge_bases.NAME, kb_slots.NAME, backfills.NAME, spu_ledger.NAME):
        assert await rows_of(organization, collection) == []


async def test_a_provider_that_refuses_is_a_422_that_says_so_once(
    organization: OrganizationClient, provider: Callable[..., Awaitable[None]]
) -> None:
    await provider({"status": 401})
    response = await organization.request("POST", "/knowledge-bases", json={"name": "n"})
    assert (response.status_code, response.json()["type"]) == (422, "provider-refused")
    assert response.json()["detail"] == (
        f"the provider of {MODEL!r} refused its key (401); choose another embedding_model, or ask your operator."
    )


async def test_the_limit_holds_when_many_are_created_at_once(organization: OrganizationClient) -> None:
    limit = organization.api.settings.max_knowledge_bases
    await asyncio.gather(*(organization.create() for _ in range(limit - 2)))
    answers = await asyncio.gather(
        *(organization.request("POST", "/knowledge-bases", json={"name": "n"}) for _ in range(6))
    )
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409, 409, 409]
    assert {answer.json()["type"] for answer in answers if answer.status_code == 409} == {"kb-limit"}
    assert len(await rows_of(organization, knowledge_bases.NAME)) == limit


async def test_creations_wait_for_each_other_however_slow_they_are(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize = organizations.serialize_transactions

    async def serialize_slowly(*args: Any) -> None:
        await serialize(*args)
        await asyncio.sleep(0.1)

    monkeypatch.setattr(organizations, "serialize_transactions", serialize_slowly)
    await asyncio.gather(*(organization.create() for _ in range(16)))


async def test_a_knowledge_base_that_is_being_deleted_does_not_count(organization: OrganizationClient) -> None:
    limit = organization.api.settings.max_knowledge_bases
    kbs = await asyncio.gather(*(organization.create() for _ in range(limit)))
    await organization.ok("DELETE", f"/knowledge-bases/{kbs[0]['kb_id']}")
    await organization.create()


async def test_small_chunks_get_an_overlap_that_fits(organization: OrganizationClient) -> None:
    assert (await organization.create(chunk_size=60))["chunk_overlap"] == 15


@pytest.mark.parametrize(("chunk_size", "warned_of"), [(192, []), (193, [True])])
async def test_chunks_that_are_with_their_headings_longer_than_the_model_reads_are_warned_of(
    organization: OrganizationClient, chunk_size: int, warned_of: list[bool]
) -> None:
    kb = await organization.create(embedding_model="all-MiniLM-L6-v2", chunk_size=chunk_size, chunk_overlap=0)
    assert ["256" in warning and str(chunk_size) in warning for warning in kb["warnings"]] == warned_of


def test_documented_limits_of_chunks_are_those_of_the_chunkers() -> None:
    assert create_knowledge_base.MIN_OWN_TOKENS == chunk.MIN_OWN_TOKENS
    assert create_knowledge_base.HEADING_TOKENS == outline.MAX_HEADING_LINE_TOKENS
    assert tuple(chunk.ChunkerType) == create_knowledge_base.CHUNKERS


async def test_the_greatest_accepted_overlap_is_the_greatest_of_the_chunker(organization: OrganizationClient) -> None:
    kb = await organization.create(chunk_size=50, chunk_overlap=34)
    chunk.ChunkingConfig(chunk.ChunkerType(kb["chunker_type"]), kb["chunk_size"], kb["chunk_overlap"])


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": " \t"}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"tag_ids": ["has space"]}, "tag_ids.0"),
        ({"tag_ids": "t"}, "tag_ids"),
        ({"chunker_type": "slumber"}, "chunker_type"),
        ({"chunk_size": 49}, "chunk_size"),
        ({"chunk_size": 2001}, "chunk_size"),
        ({"chunk_size": "512"}, "chunk_size"),
        ({"chunk_size": 50, "chunk_overlap": 35}, "chunk_overlap"),
        ({"chunk_size": 100, "chunk_overlap": 100}, "chunk_overlap"),
        ({"coalesce_neighbors": True}, "coalesce_neighbors"),
        ({"coalesce_neighbors": 6}, "coalesce_neighbors"),
        ({"coalesce_neighbors": -1}, "coalesce_neighbors"),
        ({"min_score": 1.1}, "min_score"),
        ({"max_chunks_per_document": 2001}, "max_chunks_per_document"),
        ({"filterable_metadata": "year"}, "filterable_metadata"),
        ({"filterable_metadata": ["a.b"]}, "filterable_metadata.0"),
        ({"filterable_metadata": ["year", "$where"]}, "filterable_metadata.1"),
        ({"filterable_metadata": ["constructor"]}, "filterable_metadata.0"),
        ({"filterable_metadata": ["year", "upload_date"]}, "filterable_metadata.1"),
        ({"filterable_metadata": [f"k{n}" for n in range(21)]}, "filterable_metadata"),
        ({"rate_limits": {"per_day": 1}}, "rate_limits.per_day"),
        ({"rate_limits": {"requests_per_minute": 0}}, "rate_limits.requests_per_minute"),
        ({"rate_limits": {"tokens_per_minute": 1.5}}, "rate_limits.tokens_per_minute"),
        ({"text_analyzer": "lucene.klingon"}, "text_analyzer"),
        ({"text_normalization": 1}, "text_normalization"),
        ({"kb_id": "0" * 24}, "kb_id"),
        ({"embedding_dimensions": 3}, "embedding_dimensions"),
    ],
)
async def test_a_wrong_field_is_named(organization: OrganizationClient, fields: dict[str, Any], named: str) -> None:
    response = await organization.request("POST", "/knowledge-bases", json={"name": "n", **fields})
    assert response.status_code == 422
    assert [problem["field"] for problem in response.json()["fields"]] == [named]


async def test_an_unknown_chunker_is_answered_with_the_list_of_known_ones(organization: OrganizationClient) -> None:
    response = await organization.request("POST", "/knowledge-bases", json={"name": "n", "chunker_type": "slumber"})
    for chunker in chunk.ChunkerType:
        assert chunker in response.json()["fields"][0]["message"]


async def test_late_chunking_is_refused_where_its_model_is_not_installed(organization: OrganizationClient) -> None:
    response = await organization.request("POST", "/knowledge-bases", json={"name": "n", "chunker_type": "late"})
    assert (response.status_code, response.json()["type"]) == (422, "chunker-unavailable")
    assert "sentence-transformers" in response.json()["detail"]
    assert response.json()["available"] == [each for each in chunk.ChunkerType if each is not chunk.ChunkerType.LATE]
    assert await rows_of(organization, spu_ledger.NAME) == []
    assert await rows_of(organization, knowledge_bases.NAME) == []


class TwoDimensionalModel:
    """A late model for which all texts are the same."""

    max_tokens = 100

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]

    def token_vectors(self, text: str) -> tuple[list[tuple[int, int]], NDArray[np.float32]]:
        return self.offsets(text), np.ones((1, 2), np.float32)

    def query_vector(self, _: str) -> NDArray[np.float32]:
        return np.ones(2, np.float32)


@pytest.fixture
async def with_late_models(
    api: KbApi, new_organization: NewOrganization, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OrganizationClient]:
    """An organization of a deployment whose late models are `one` and `two`."""
    monkeypatch.setattr(late_models, "load", lambda _: TwoDimensionalModel())
    settings = api.settings.model_copy(update={"late_models": {"one": "/models/one", "two": "/models/two"}})
    embedder = create_embedder(api.database, settings, patience_s=0.2)
    deployed = create_kb_api(settings, database=api.database, embedder=embedder)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(deployed)), base_url="http://late") as http:
        yield replace(await new_organization(), http=http)
    await embedder.close()


async def test_a_late_knowledge_base_has_a_late_model_and_no_overlap(with_late_models: OrganizationClient) -> None:
    by_default = await with_late_models.create(chunker_type="late", embedding_model=None)
    assert (by_default["embedding_model"], by_default["embedding_dimensions"]) == ("one", 2)
    assert (by_default["chunk_overlap"], by_default["warnings"]) == (0, [])
    assert (await with_late_models.create(chunker_type="late", embedding_model="two"))["embedding_model"] == "two"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"chunker_type": "late", "embedding_model": MODEL}, "embedding_model"),
        ({"chunker_type": "late", "embedding_model": "one", "chunk_overlap": 1}, "chunk_overlap"),
        ({"chunker_type": "recursive", "embedding_model": "one"}, "embedding_model"),
    ],
)
async def test_fields_that_do_not_fit_late_chunking_are_refused(
    with_late_models: OrganizationClient, fields: dict[str, Any], named: str
) -> None:
    response = await with_late_models.request("POST", "/knowledge-bases", json={"name": "n", **fields})
    assert response.status_code == 422
    assert [problem["field"] for problem in response.json()["fields"]] == [named]


@pytest.mark.parametrize("chunker_type", ["semantic", "sdpm"])
async def test_a_knowledge_base_may_group_sentences_by_meaning(
    organization: OrganizationClient, chunker_type: str
) -> None:
    assert (await organization.create(chunker_type=chunker_type))["chunker_type"] == chunker_type


async def test_settings_of_searches_can_be_given(organization: OrganizationClient) -> None:
    given = {"coalesce_neighbors": 5, "text_analyzer": "lucene.english", "filterable_metadata": ["year"]}
    created = await organization.create(**given)
    assert {name: created[name] for name in given} == given


async def test_a_knowledge_base_that_is_older_than_normalization_takes_texts_as_they_are(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    await organization.database[knowledge_bases.NAME].update_one({"_id": kb_id}, {"$unset": {"text_normalization": 1}})
    assert (await organization.ok("GET", f"/knowledge-bases/{kb_id}"))["text_normalization"] == 1
    await organization.ok("PUT", f"/knowledge-bases/{kb_id}", json={"name": "Renamed"})
    assert (await organization.ok("GET", f"/knowledge-bases/{kb_id}"))["text_normalization"] == 1


@pytest.mark.parametrize(
    "behaviour", [gives_vectors(200_000), gives_vectors(MAX_DIMENSIONS + 1), gzip_bomb(10_000_000)]
)
async def test_a_model_whose_answers_no_index_can_take_is_refused(
    api: KbApi, new_organization: NewOrganization, behaviour: Behaviour
) -> None:
    settings = api.settings.model_copy(update={"allow_private_addresses": True})
    embedder = create_embedder(api.database, settings, patience_s=0.2)
    deployed = create_kb_api(settings, database=api.database, embedder=embedder)
    transport = httpx.ASGITransport(create_app(deployed))
    async with httpx.AsyncClient(transport=transport, base_url="http://kb-api") as http:
        organization = replace(await new_organization(), http=http)
        async with hostile_provider(behaviour) as hostile:
            named = {"api_key": "sk-of-an-organization", "api_base": hostile.api_base}
            await organization.ok("PUT", "/llm-providers/openai", json=named)
            asked = {"name": "n", "embedding_model": "text-embedding-3-small"}
            assert await organization.refused("POST", "/knowledge-bases", json=asked) == (422, "provider-refused")
            assert len(hostile.asked) == 1
    await embedder.close()


async def test_an_embedding_model_without_a_known_price_is_refused_under_a_budget_in_dollars(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await organization.create()
    monkeypatch.setattr(Prices, "of_embedding", lambda *_, **__: None)
    await organization.create()
    for limits in ({"hard_usd": 5}, {"soft_usd": 5}):
        await organization.ok("PUT", "/budget", json={"soft": None, "hard": None} | limits)
        body = {"name": "A knowledge base"}
        assert await organization.refused("POST", "/knowledge-bases", json=body) == (422, "unknown-price")
