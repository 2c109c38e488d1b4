"""What of a document is checked for credentials, and what a refusal says."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from kb_indexer.chunking_threads import ChunkingThreads
from kb_indexer.refuse_sensitive import SensitiveDocuments
from kb_indexer.state_reader import StateReader
from kb_shared.errors import SensitiveDocument
from kb_shared.mongo.bulk_lookup import OrganizationKey
from kb_shared.mongo.document_texts import StoredText
from tests.unit.indexer.test_membership import document, kb

SECRET = "hunter2-Xy77-kk"
SENTENCE = f"The password = {SECRET} opens it."


class StoredTexts:
    """Answers as a reader of the stored state does."""

    def __init__(self, stored: StoredText) -> None:
        self.stored = stored
        self.reads = 0

    async def text(self, _: OrganizationKey) -> StoredText:
        self.reads += 1
        return self.stored


@pytest.fixture
def threads() -> Iterator[ChunkingThreads]:
    threads = ChunkingThreads()
    yield threads
    threads.close()


def checking(stored: StoredText, threads: ChunkingThreads) -> tuple[SensitiveDocuments, StoredTexts]:
    texts = StoredTexts(stored)
    return SensitiveDocuments(cast("StateReader", texts), threads), texts


@pytest.mark.parametrize(
    ("stored", "of_document", "place"),
    [
        (StoredText(f"One.\n{SENTENCE}", ()), {}, "line 2 contains a credential (password), "),
        (StoredText("One.", (), SENTENCE), {}, "line 1 of the embedding text contains a credential (password), "),
        (StoredText("One.", ()), {"name": SENTENCE}, "line 1 of the name contains a credential (password), "),
        (
            StoredText("One.", ()),
            {"metadata": {"password": SECRET, "at": datetime(2026, 1, 31, tzinfo=UTC)}},
            "line 1 of the metadata contains a credential (password), ",
        ),
    ],
)
async def test_a_refusal_names_the_place_of_a_credential_and_never_quotes_it(
    stored: StoredText, of_document: dict[str, Any], place: str, threads: ChunkingThreads
) -> None:
    documents, texts = checking(stored, threads)
    checked = document("a", metadata=of_document.get("metadata"))
    assert checked.text is not None
    checked = replace(checked, text=replace(checked.text, name=of_document.get("name", "d.pdf")))
    with pytest.raises(SensitiveDocument) as refused:
        await documents.refuse(kb("a", refuse_sensitive=True), checked, with_text=True)
    assert str(refused.value).startswith(place)
    assert SECRET not in str(refused.value)
    assert refused.value.is_in_text is not ("name" in place or "metadata" in place)
    await documents.refuse(kb("a"), checked, with_text=True)
    assert texts.reads == 1


async def test_a_text_that_was_checked_is_not_read_again(threads: ChunkingThreads) -> None:
    documents, texts = checking(StoredText(SENTENCE, ()), threads)
    refusing = kb("a", refuse_sensitive=True)
    await documents.refuse(refusing, document("a"), with_text=False)
    with pytest.raises(SensitiveDocument):
        await documents.refuse(refusing, document("a", metadata={"pwd": SECRET}), with_text=False)
    assert texts.reads == 0
