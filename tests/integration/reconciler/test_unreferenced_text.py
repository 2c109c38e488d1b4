"""Texts that no document refers to go; none that one refers to, or is about to, does."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId
from gridfs.asynchronous import AsyncGridFSBucket
from pymongo.asynchronous.database import AsyncDatabase

from kb_reconciler.drift.unreferenced_text import sweep_texts
from kb_shared.mongo import document_texts, documents
from kb_shared.mongo.documents import AppliedEvent, Document, TextFacet
from kb_shared.mongo.keys import DocumentKey

Database = AsyncDatabase[dict[str, Any]]

AN_HOUR = timedelta(hours=1)
LARGE = "x" * 1_100_000


async def put(database: Database, document_id: str, text: str, *, age: timedelta) -> str:
    text_id = await document_texts.put(database, DocumentKey("org", document_id), text)
    made = {"created_at": datetime.now(UTC) - age}
    await database[document_texts.NAME].update_one({"_id": text_id}, {"$set": made})
    return text_id


async def refer(database: Database, document_id: str, text_id: str) -> None:
    facet = TextFacet(1, "digest", text_id, "A name", datetime.now(UTC))
    state = replace(Document("org", document_id), text=facet)
    assert await documents.write_all(
        database,
        [documents.DocumentChange(state, AppliedEvent("e", "document.ocr_completed.v1", 1, "t", datetime.now(UTC)))],
    )


async def stored(database: Database) -> set[str]:
    return {row["_id"] async for row in database[document_texts.NAME].find({}, {"_id": 1})}


async def test_old_texts_that_no_document_refers_to_are_deleted_with_their_files(database: Database) -> None:
    replaced = await put(database, "d", "the old text", age=2 * AN_HOUR)
    large = await put(database, "gone", LARGE, age=2 * AN_HOUR)
    current = await put(database, "d", "the new text", age=2 * AN_HOUR)
    await refer(database, "d", current)
    assert await stored(database) == {replaced, large, current}

    assert await sweep_texts(database, age=AN_HOUR) == 2

    assert await stored(database) == {current}
    assert await database["document_texts.files"].count_documents({}) == 0
    assert await database["document_texts.chunks"].count_documents({}) == 0


async def begin_file(database: Database, *, age: timedelta, complete: bool) -> ObjectId:
    """Leave the rows of a process that was killed over a large text: pieces, or a file that no document names yet."""
    begun = ObjectId.from_datetime(datetime.now(UTC) - age)
    file_id = ObjectId(begun.binary[:4] + ObjectId().binary[4:])
    files = AsyncGridFSBucket(database, bucket_name=document_texts.NAME)
    await files.upload_from_stream_with_id(file_id, "org/d", LARGE.encode())
    if not complete:
        await database["document_texts.files"].delete_one({"_id": file_id})
    return file_id


async def test_files_of_uploads_that_were_cut_off_are_deleted_and_no_others(database: Database) -> None:
    current = await put(database, "d", LARGE, age=timedelta(0))
    await refer(database, "d", current)
    (named,) = await database["document_texts.files"].distinct("_id")
    await begin_file(database, age=2 * AN_HOUR, complete=False)
    await begin_file(database, age=2 * AN_HOUR, complete=True)
    young = await begin_file(database, age=timedelta(0), complete=False)

    await sweep_texts(database, age=AN_HOUR)

    assert set(await database["document_texts.chunks"].distinct("files_id")) == {named, young}
    assert await database["document_texts.files"].distinct("_id") == [named]


async def test_the_file_of_an_old_text_stays(database: Database) -> None:
    old = await put(database, "d", LARGE, age=2 * AN_HOUR)
    await refer(database, "d", old)
    # As if it had been begun long ago.
    (file_id,) = await database["document_texts.files"].distinct("_id")
    earlier = ObjectId.from_datetime(datetime.now(UTC) - 3 * AN_HOUR)
    await database["document_texts.chunks"].update_many({"files_id": file_id}, {"$set": {"files_id": earlier}})
    await database[document_texts.NAME].update_one({"_id": old}, {"$set": {"file_id": earlier}})

    await sweep_texts(database, age=AN_HOUR)

    assert await database["document_texts.chunks"].distinct("files_id") == [earlier]


async def test_a_young_text_stays_for_the_document_that_is_about_to_refer_to_it(database: Database) -> None:
    young = await put(database, "d", "just stored", age=timedelta(0))
    assert await sweep_texts(database, age=AN_HOUR) == 0
    assert await stored(database) == {young}


async def test_an_old_text_that_comes_back_is_young_again(database: Database) -> None:
    old = await put(database, "d", "once more", age=2 * AN_HOUR)
    assert await document_texts.put(database, DocumentKey("org", "d"), "once more") == old
    assert await sweep_texts(database, age=AN_HOUR) == 0
    assert await stored(database) == {old}


async def test_a_large_text_reads_as_it_was_stored(database: Database) -> None:
    pages = [(1, 0, 10), (2, 10, len(LARGE))]
    text_id = await document_texts.put(database, DocumentKey("org", "d"), LARGE, pages=pages)
    assert await document_texts.put(database, DocumentKey("org", "d"), LARGE, pages=pages) == text_id
    found = (await document_texts.find_all(database, "org", [text_id])).get(text_id)
    assert found is not None
    assert (found.text, found.pages) == (LARGE, tuple(pages))
    assert await database["document_texts.files"].count_documents({}) == 1
    assert (await document_texts.find_all(database, "another", [text_id])).get(text_id) is None
