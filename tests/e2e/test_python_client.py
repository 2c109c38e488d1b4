"""An upstream team uses `kb_client`: documents, knowledge bases, searches, runs and outcomes of a running system."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import httpx
import pytest

from kb_client import AsyncClient, BatchFailed, Client
from kb_client.errors import HttpPreconditionFailed
from kb_client.problems import NotFoundError, UnauthenticatedError
from kb_client.subscriber import EventSubscriber
from kb_contracts.outcomes import DocumentIndexed
from kb_local.ports import NO_TLS
from tests.e2e.running_system import RunningSystem
from tests.e2e.system import CHUNK_SIZE, MODEL
from tests.kafka_access import UPSTREAM, kafka_access
from tests.waiting import DEADLINE_S, until

TEXT = "Employees have thirty days of leave a year."
DEMO = "demo-extractive"


@pytest.fixture
def client(running: RunningSystem) -> Iterator[Client]:
    stack = running.system.stack
    with (
        httpx.Client(trust_env=False, verify=NO_TLS) as http,
        Client(stack.base_url, organization=stack.organization_id, api_key=stack.api_key, http=http) as client,
    ):
        yield client


@pytest.fixture
async def async_client(running: RunningSystem) -> AsyncIterator[AsyncClient]:
    stack = running.system.stack
    async with (
        httpx.AsyncClient(trust_env=False, verify=NO_TLS) as http,
        AsyncClient(stack.base_url, organization=stack.organization_id, api_key=stack.api_key, http=http) as client,
    ):
        yield client


async def test_a_team_goes_from_texts_to_a_cited_streamed_answer(
    running: RunningSystem, async_client: AsyncClient
) -> None:
    client, tag = async_client, f"leave-{uuid4().hex[:8]}"
    await client.tags.put(tag, name="Leave")
    kb = await client.knowledge_bases.create(
        name="Leave", tag_ids=[tag], embedding_model=MODEL, chunk_size=CHUNK_SIZE, chunk_overlap=0
    )

    async def put_both() -> None:
        async with client.documents.in_batches() as batches:
            await batches.put(f"{tag}-1", TEXT, document_name="Leave", tag_ids=[tag])
            await batches.put("not/an/id", TEXT, document_name="Bad", tag_ids=[tag])

    with pytest.raises(BatchFailed) as caught:
        await put_both()
    assert [each.document_id for each in caught.value.failures] == ["not/an/id"]
    # More than a request has room for: stored by itself, and given to the document by its reference.
    progress: list[tuple[int, int]] = []
    long_text = "\n\n".join(f"Paragraph {number} of the long handbook." for number in range(20_000))
    await client.documents.upload(
        f"{tag}-2", long_text, document_name="Handbook", tag_ids=[], on_progress=lambda *sent: progress.append(sent)
    )
    assert progress[-1] == (len(long_text), len(long_text))

    async def is_searchable() -> bool:
        document = await client.documents.get(f"{tag}-1", wait="searchable", timeout_s=10)
        return bool(document.searchable)

    await until(is_searchable, within_s=DEADLINE_S)
    found = await client.knowledge_bases.search(kb.kb_id, "How many days of leave?")
    assert [result.document_id for result in found.results] == [f"{tag}-1"]
    question = [{"role": "user", "content": "How many days of leave?"}]
    async with client.runs.stream(messages=question, kb_ids=[kb.kb_id], model=DEMO) as events:
        kinds = [event.event async for event in events]
    assert (kinds[0], kinds[-1]) == ("run.started", "run.finished")
    assert events.finished is not None
    assert [citation.document_id for citation in events.finished.citations] == [f"{tag}-1"]
    assert events.run_id is not None
    stored = await client.runs.get(events.run_id)
    assert (stored.status, stored.answer) == ("completed", events.finished.answer)
    await client.knowledge_bases.delete(kb.kb_id)


def test_two_editors_do_not_overwrite_each_other(client: Client) -> None:
    prompt_id = client.prompts.create(name="p", content="c", model=DEMO).prompt_id
    read = client.prompts.get.with_raw_response(prompt_id)
    client.prompts.update(prompt_id, content="of the first editor", if_match=read.etag)
    with pytest.raises(HttpPreconditionFailed):
        client.prompts.update(prompt_id, content="of the second editor", if_match=read.etag)
    assert client.prompts.get(prompt_id).content == "of the first editor"
    client.prompts.delete(prompt_id)
    with pytest.raises(NotFoundError):
        client.prompts.get(prompt_id)


def test_iteration_reads_all_pages_of_a_list(client: Client) -> None:
    tag = f"page-{uuid4().hex[:8]}"
    for number in range(5):
        client.tags.put(f"{tag}-{number}", name=str(number))
    found = [each.tag_id for each in client.tags.list.iterate(limit=2) if each.tag_id.startswith(tag)]
    assert sorted(found) == [f"{tag}-{number}" for number in range(5)]


def test_a_creating_call_that_is_repeated_with_its_key_creates_once(client: Client) -> None:
    once = client.with_options(idempotency_key=uuid4().hex)
    first, second = (once.threads.create.with_raw_response(title="t") for _ in range(2))
    assert first.parsed == second.parsed
    assert second.headers["Idempotency-Replayed"]


def test_a_wrong_key_is_an_error_that_does_not_show_it(running: RunningSystem) -> None:
    stack = running.system.stack
    with (
        httpx.Client(trust_env=False, verify=NO_TLS) as http,
        Client(stack.base_url, organization=stack.organization_id, api_key="kb_00_wrong7f3a", http=http) as client,
        pytest.raises(UnauthenticatedError) as caught,
    ):
        client.tags.list()
    assert "wrong7f3a" not in str(caught.value)


async def test_a_subscriber_hears_that_a_document_is_indexed(running: RunningSystem, async_client: AsyncClient) -> None:
    client, tag = async_client, f"heard-{uuid4().hex[:8]}"
    stack = running.system.stack
    await client.tags.put(tag, name="Heard")
    kb = await client.knowledge_bases.create(
        name="Heard", tag_ids=[tag], embedding_model=MODEL, chunk_size=CHUNK_SIZE, chunk_overlap=0
    )
    await client.documents.put(
        f"{tag}-1", document_name="n", tag_ids=[tag], upload_date="2026-01-31T00:00:00Z", text=TEXT
    )
    access = kafka_access()
    connection = stack.kafka_connection if access is None else access.connection_of(UPSTREAM, stack.kafka)
    subscriber = EventSubscriber(
        connection,
        group_id=f"upstream-{uuid4().hex}",
        topic_prefix=stack.topic_prefix,
        organization_id=stack.organization_id,
    )
    async with asyncio.timeout(DEADLINE_S), subscriber as events:
        async for event in events:
            match event.outcome:
                case DocumentIndexed(document_id=document_id, kb_id=kb_id) if document_id == f"{tag}-1":
                    assert kb_id == kb.kb_id
                    break
