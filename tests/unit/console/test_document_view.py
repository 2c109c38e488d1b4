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
