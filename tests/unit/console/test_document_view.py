"""The text of a document with its chunks, and a cited passage in it, also when that is gone."""

import httpx

from kb_console.documents.document_text import lay_out
from kb_contracts.api.document_texts import DocumentText
from kb_contracts.api.memberships import ChunkList, ChunkView
from tests.unit.console.fake_api import DOCUMENT_ID, KB_ID, FakeApi, example_of
from tests.unit.console.fake_runs import CHUNK_ID, RUN_ID

VIEW = f"/console/orgs/acme/knowledge-bases/{KB_ID}/documents/{DOCUMENT_ID}"
LIST_CHUNKS = f"GET /knowledge-bases/{KB_ID}/chunks"
TEXT = "One two. Three four. [lost] Five."


def chunks_at(*spans: tuple[int, int]) -> list[ChunkView]:
    [about] = example_of(ChunkList)["chunks"]
    return [
        ChunkView.model_validate(about | {"chunk_index": index, "start": start, "end": end, "content": TEXT[start:end]})
        for index, (start, end) in enumerate(spans)
    ]


def test_the_text_is_shown_once_with_what_chunks_repeat_where_pages_begin_and_what_is_in_no_chunk() -> None:
    pages = [{"page": 1, "start": 0, "end": 15}, {"page": 2, "start": 15, "end": 33}]
    text = DocumentText.model_validate(example_of(DocumentText) | {"text": TEXT, "end": 33, "pages": pages})
    bands = lay_out(text, chunks_at((0, 8), (4, 20), (28, 33)))
    assert [(band.chunk.chunk_index if band.chunk else None) for band in bands] == [0, 1, None, 2]
    assert [[(part.text, part.page, part.is_repeated) for part in band.parts] for band in bands] == [
        [("One two.", 1, False)],
        [("two.", None, True), (" Three ", None, False), ("four.", 2, False)],
        [(" [lost] ", None, False)],
        [("Five.", None, False)],
    ]


async def test_a_cited_passage_is_marked_in_its_text_and_pages_have_anchors(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers[f"GET /documents/{DOCUMENT_ID}/text"] |= {"text": "# Leave\n\n" + "x" * 40, "end": 49, "length": 49}
    page = (await reader.get(f"{VIEW}?cited={CHUNK_ID}")).text
    assert 'id="chunk-0" class="band cited" tabindex="-1"' in page
    assert '<a href="#page-1">1</a>' in page
    assert 'id="page-1"' in page
    # The text is a newer one than that of the chunks.
    api.answers[f"GET /documents/{DOCUMENT_ID}/text"]["revision"] = 2
    page = (await reader.get(f"{VIEW}?cited={CHUNK_ID}")).text
    assert "xxx" not in page
    assert "Employees have 30 days" in page


async def test_a_passage_that_was_replaced_is_shown_as_it_was_cited(reader: httpx.AsyncClient, api: FakeApi) -> None:
    gone = "handbook:aa:0"
    page = (await reader.get(f"{VIEW}?cited={gone}&run={RUN_ID}")).text
    assert "was replaced since then" in page
    assert '<blockquote class="cited" tabindex="-1"' in page
    assert "Nothing else." in page
    api.refuse(LIST_CHUNKS, 404, "not-found")
    assert "Nothing else." in (await reader.get(f"{VIEW}?cited={gone}&run={RUN_ID}")).text


async def test_the_facts_tell_where_a_document_is_and_how_often_it_is_cited(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    page = (await reader.get(VIEW)).text
    for words in ("text 1, tags 1, metadata 1", "<bdi>year</bdi>: <bdi>2026</bdi>", "9 citations in 7 answers"):
        assert words in page
    assert api.queries["GET /insights/citations"]["document_id"] == DOCUMENT_ID
    api.refuse("GET /insights/citations", 403, "key-limited")
    api.refuse(f"GET /documents/{DOCUMENT_ID}", 404, "not-found")
    unknown = await reader.get(VIEW)
    assert (unknown.status_code, "Nothing has arrived of a document with this id" in unknown.text) == (200, True)


async def test_tags_are_changed_and_a_refusal_keeps_them(reader: httpx.AsyncClient, api: FakeApi) -> None:
    saved = await reader.post(f"{VIEW}/tags", data={"tags": "hr, policies hr"})
    assert saved.headers["location"] == f"{VIEW}?done=tags"
    assert api.bodies[f"PATCH /documents/{DOCUMENT_ID}/tags"] == {"tag_ids": ["hr", "policies"]}
    api.refuse(f"PATCH /documents/{DOCUMENT_ID}/tags", 422, "validation-error")
    refused = await reader.post(f"{VIEW}/tags", data={"tags": "kb.knowledge"})
    assert refused.status_code == 422
    assert 'value="kb.knowledge"' in refused.text
    assert "Detail of validation-error." in refused.text


async def test_more_chunks_are_loaded_while_somebody_scrolls(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers[LIST_CHUNKS] |= {"skip": 50, "total_count": 120}
    page = (await reader.get(f"{VIEW}?chunk=50")).text
    assert api.queries[LIST_CHUNKS]["skip"] == "50"
    assert f'hx-get="{VIEW}?chunk=51&amp;more=true" hx-trigger="revealed"' in page
    assert f'<a href="{VIEW}?chunk=51" rel="next">' in page, "without a script"
    asked = {"HX-Request": "true", "HX-Request-Type": "partial"}
    part = (await reader.get(f"{VIEW}?chunk=50&more=true", headers=asked)).text
    assert "<html" not in part
    assert 'id="chunk-0"' in part
    assert "How it got here" not in part
    api.refuse(LIST_CHUNKS, 404, "not-found")
    left = await reader.get(f"{VIEW}?chunk=50&more=true", headers=asked)
    assert left.status_code == 200, "the document has left meanwhile"


async def test_what_was_left_out_of_the_metadata_is_told_with_the_document_and_in_the_lists(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    assert "left out" not in (await reader.get(VIEW)).text
    warning = {"field": "metadata.authors", "message": "is a <list>"}
    api.answers[f"GET /documents/{DOCUMENT_ID}"]["warnings"] = [warning]
    page = (await reader.get(VIEW)).text
    assert "<code>metadata.authors</code> <bdi>is a &lt;list&gt;</bdi>" in page
    lists = {
        "GET /documents": "/console/orgs/acme/documents",
        f"GET /knowledge-bases/{KB_ID}/documents": f"/console/orgs/acme/knowledge-bases/{KB_ID}/documents",
    }
    for call, address in lists.items():
        assert "with warnings" not in (await reader.get(address)).text
        api.answers[call]["documents"][0]["has_warnings"] = True
        assert "with warnings" in (await reader.get(address)).text
