"""Whether a text analyzer fits is seen in a few chunks, when documents have changed."""

from collections.abc import Sequence

import pytest

from kb_api import detect_languages as detection
from kb_api.bootstrap import KbApi
from kb_api.preview_unavailable import PreviewUnavailable
from kb_api.text_worker.client import TextWorker
from kb_shared.mongo import kb_slots, knowledge_bases, vectors
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.keys import MembershipKey
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create

ENGLISH = "Everybody who works here has thirty days of leave, and asks for them two weeks before."
GERMAN = "Urlaub wird zwei Wochen vorher beantragt und von der Leitung genehmigt. Danach darf er genommen werden."


@pytest.fixture
async def worker(api: KbApi, monkeypatch: pytest.MonkeyPatch) -> TextWorker:
    """The text worker, after a round that leaves no KB of other tests to be looked at."""
    monkeypatch.setattr(detection, "KBS_OF_ROUND", 10_000)
    await detection.detect_languages(api.database, api.text_worker)
    return api.text_worker


async def index(knowledge: Knowledge, *texts: str) -> None:
    await knowledge.index(DocumentToIndex("d", texts), searchable=False)


async def remove(knowledge: Knowledge) -> None:
    """Remove the document as the indexer does."""

    async def work(session: MongoSession) -> None:
        key = MembershipKey(knowledge.kb.organization_id, knowledge.kb.kb_id, "d")
        await vectors.delete_document(knowledge.chunks, session, "d")
        assert await kb_slots.fence_knowledge_base(
            knowledge.database, session, key, tags_version=1, documents=-1, chunks=-1
        )

    await in_transaction(knowledge.database, work)


async def test_an_analyzer_that_does_not_fit_is_warned_of_as_long_as_such_documents_are_there(
    organization: OrganizationClient, worker: TextWorker
) -> None:
    async def warnings() -> list[str]:
        await detection.detect_languages(organization.database, worker)
        shown = await organization.ok("GET", f"/knowledge-bases/{knowledge.kb.kb_id}")
        [listed] = (await organization.ok("GET", "/knowledge-bases"))["knowledge_bases"]
        assert listed == shown
        found: list[str] = shown["warnings"]
        return found

    knowledge = await create(
        organization.database,
        organization.organization_id,
        ready=False,
        text_analyzer="lucene.english",
        warnings=("about chunks",),
    )
    assert await warnings() == ["about chunks"]
    await index(knowledge, *[GERMAN] * 8, ENGLISH)
    [_, warning] = await warnings()
    assert "text_analyzer lucene.german" in warning
    # The German chunks stay for a moment, retired.
    await index(knowledge, ENGLISH)
    assert await warnings() == ["about chunks"]
    await index(knowledge, GERMAN)
    assert len(await warnings()) == 2
    await remove(knowledge)
    assert await warnings() == ["about chunks"]


async def test_a_few_chunks_are_read_and_only_after_documents_have_changed(
    organization: OrganizationClient, worker: TextWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge, other = [
        await create(organization.database, organization.organization_id, ready=False) for _ in range(2)
    ]
    for each in (knowledge, other):
        await index(each, *[f"{number}. {ENGLISH}" for number in range(50)], "brief")
    read: list[int] = []

    async def detect(_: str, texts: Sequence[str]) -> list[str | None]:
        read.append(len(texts))
        if len(read) == 1:
            raise PreviewUnavailable("The text could not be processed in time")
        return ["en"] * len(texts)

    monkeypatch.setattr(worker, "detect_languages", detect)
    for rounds in (1, 2, 3):
        await detection.detect_languages(organization.database, worker)
        # What failed in the first round is tried in the second one.
        assert len(read) == (2 if rounds == 1 else 3)
    assert 0 < max(read) <= detection.SAMPLED_CHUNKS
    languages = [(await organization.stored(each.kb.kb_id)).text_language for each in (knowledge, other)]
    assert languages == ["en", "en"]


async def test_what_is_written_during_a_detection_is_looked_at_in_the_next_round(
    organization: OrganizationClient, worker: TextWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge = await create(organization.database, organization.organization_id, ready=False)
    await index(knowledge, GERMAN)
    sample = vectors.sample_texts

    async def sample_then_replace(chunks: vectors.Chunks, *, at_most: int) -> list[str]:
        texts = await sample(chunks, at_most=at_most)
        monkeypatch.setattr(vectors, "sample_texts", sample)
        await index(knowledge, ENGLISH)
        return texts

    monkeypatch.setattr(vectors, "sample_texts", sample_then_replace)
    languages = []
    for _ in range(2):
        await detection.detect_languages(organization.database, worker)
        kb = await knowledge_bases.get(organization.database, knowledge.kb.key)
        languages.append(kb.text_language)
    assert languages == ["de", "en"]
