from datetime import UTC, datetime

import pytest

from kb_api.create_knowledge_base import IndexSettings
from kb_api.preview_documents import DocumentsPreviewer, PreviewedVectors, PreviewScope
from kb_api.preview_unavailable import PreviewUnavailable
from kb_api.text_worker.client import ChunkingRequest, TextWorker
from kb_shared.mongo import document_texts, documents
from kb_shared.mongo.documents import AppliedEvent, Document, DocumentChange, TagsFacet, TextFacet
from kb_shared.mongo.keys import DocumentKey
from tests.integration.kb_api.conftest import MODEL, NewOrganization
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until

ENGLISH = "Everybody who works here has thirty days of leave, and asks for them two weeks before."
GERMAN = "Urlaub wird zwei Wochen vorher beantragt und von der Leitung genehmigt. Danach darf er genommen werden."
SETTINGS = IndexSettings("recursive", 50, 0, MODEL, 100)


def request(text: str) -> ChunkingRequest:
    return ChunkingRequest(text, "recursive", 50, 0, 2, 100)


async def store(organization: OrganizationClient, document_id: str, text: str) -> None:
    key = DocumentKey(organization.organization_id, document_id)
    text_id = await document_texts.put(organization.database, key, text)
    facet = TextFacet(1, "d", text_id, f"{document_id}.txt", datetime.now(UTC))
    document = Document(key.organization_id, key.document_id, text=facet, tags=TagsFacet(1, "d", ("t",)))
    event = AppliedEvent("e", "test", 1, "", datetime.now(UTC))
    assert await documents.write_all(organization.database, [DocumentChange(document, event)])


async def test_a_pasted_text_is_cut_at_offsets_and_its_language_suggests_the_analyzer(
    organization: OrganizationClient,
) -> None:
    text = "\n\n".join([GERMAN] * 4)
    shown = await organization.ok("POST", "/knowledge-bases/preview", json={"text": text, "limit": 1, "skip": 1})
    assert (shown["language"]["language"], shown["suggested_text_analyzer"]) == ("de", "lucene.german")
    assert shown["documents"] is None
    whole = await organization.ok("POST", "/knowledge-bases/preview", json={"text": text, "chunk_size": 50})
    chunks = whole["text"]["chunks"]
    assert len(chunks) == whole["text"]["chunk_count"] > 1
    assert all(text[chunk["start"] : chunk["end"]] == chunk["content"] for chunk in chunks)
    assert whole["text"]["max_tokens"] == max(chunk["token_count"] for chunk in chunks)


async def test_a_chunker_that_has_to_embed_the_text_is_estimated_and_says_so(organization: OrganizationClient) -> None:
    body = {"text": " ".join([ENGLISH] * 20), "chunker_type": "semantic", "chunk_size": 60}
    shown = (await organization.ok("POST", "/knowledge-bases/preview", json=body))["text"]
    assert not shown["is_exact"]
    assert shown["spus"] > shown["chunk_count"] > 0


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, (422, "validation-error")),
        ({"text": "a", "document_id": "a"}, (422, "validation-error")),
        ({"kb_id": "6" * 24, "chunk_size": 60}, (422, "validation-error")),
        ({"tag_ids": ["unknown"]}, (422, "unknown-tag")),
        ({"text": "a", "embedding_model": "unknown"}, (422, "unknown-model")),
        ({"text": "a", "chunk_size": 50, "chunk_overlap": 49}, (422, "validation-error")),
        ({"document_id": "unknown"}, (404, "not-found")),
        ({"kb_id": "6" * 24}, (404, "not-found")),
    ],
)
async def test_what_creation_refuses_a_preview_refuses(
    organization: OrganizationClient, body: dict[str, object], problem: tuple[int, str]
) -> None:
    assert await organization.refused("POST", "/knowledge-bases/preview", json=body) == problem


async def test_nothing_of_another_organization_is_previewed(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    other = await new_organization()
    await store(other, "secret", ENGLISH)
    kb = await other.create()
    await organization.tag("t")
    for body in ({"document_id": "secret"}, {"kb_id": kb["kb_id"]}):
        assert await organization.refused("POST", "/knowledge-bases/preview", json=body) == (404, "not-found")
    counted = await organization.ok("POST", "/knowledge-bases/preview", json={"tag_ids": ["t"]})
    assert counted["documents"]["document_count"] == 0


async def test_if_the_texts_are_long_a_sample_is_counted_and_its_error_is_given(
    organization: OrganizationClient,
) -> None:
    worker = organization.api.text_worker
    for n in range(6):
        await store(organization, f"d{n}", "\n\n".join(f"{n} {i} {ENGLISH}" for i in range(n + 1)))
    model = await organization.api.embedder.models.get(organization.organization_id, MODEL)
    known = PreviewedVectors(organization.api.embedder, organization.organization_id, model, 16)
    scope = PreviewScope(organization.organization_id, ["t"])
    frugal = DocumentsPreviewer(organization.database, worker, most_characters=1)
    sampled, _ = await frugal.preview(scope, SETTINGS, known)
    assert (sampled.is_exact, sampled.estimate_reason, sampled.sampled_document_count) == (False, "sample", 1)
    assert sampled.document_count == 6
    assert sampled.sample_error is not None
    exact, beginnings = await DocumentsPreviewer(organization.database, worker).preview(scope, SETTINGS, known)
    assert (exact.is_exact, exact.chunk_count, exact.spus, len(beginnings)) == (True, 12, 12, 6)
    assert abs(sampled.chunk_count - exact.chunk_count) <= sampled.sample_error.chunk_count


async def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one() -> None:
    worker = TextWorker(idle_s=0.1)
    await worker.detect_languages("a", [ENGLISH])
    worker._answer_within_s = 0.001
    with pytest.raises(PreviewUnavailable, match="text could not be processed in time") as late:
        await worker.chunk("a", request(ENGLISH * 2_000))
    assert (late.value.status, late.value.slug) == (503, "preview-unavailable")
    worker._answer_within_s = 60
    assert await worker.detect_languages("b", [GERMAN, "1 2 3"]) == ["de", None]
    process = worker._process
    await until(lambda: worker._process is None, what="the end of the idle process")
    if process is not None:
        assert await process.wait() == 0
