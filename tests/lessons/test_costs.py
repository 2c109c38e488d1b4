"""What a document may cost, counted and never timed. See docs/explanation/lessons.md."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import bson
import pytest
from bson.binary import Binary

from kb_indexer import chunk_document
from kb_search.store import found_chunks
from kb_shared import failpoints
from kb_shared.chunking import advance
from kb_shared.mongo import document_texts, embedding_cache, kb_slots, knowledge_bases, vectors
from kb_shared.mongo.database import Database
from tests.integration.indexer.support import DIMENSIONS, CommandLog, Replica, Tenant, paragraph, text_of

Command = Mapping[str, Any]


async def test_c1_no_query_on_chunks_reads_more_than_the_chunks_it_is_about(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    """Elsewhere the collection had no index on its documents, and each of them read all chunks of all."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("other", text_of(7, 8)))
    await indexer.work()
    command_log.clear()
    await indexer.publish(tenant.ocr("d", text_of(1, 2, 3)))
    await indexer.work()
    await indexer.publish(tenant.ocr("d", text_of(0, 1, 3), revision=2))
    await indexer.work()
    await indexer.publish(tenant.described("d", {"n": 1}, revision=3))
    await indexer.work()
    await indexer.publish(tenant.tagged("d", "z", revision=4))
    await indexer.work()

    asked = [query for command in command_log.commands for query in _queries_on(kb.vector_collection, command)]
    assert {next(iter(query)) for query in asked} == {"aggregate", "delete", "update"}
    for query in asked:
        stages = set(await _stages(tenant.database, query))
        assert stages
        assert "COLLSCAN" not in stages, query


def _queries_on(collection: str, command: Command) -> Iterator[dict[str, Any]]:
    """The parts of `command` that choose rows of `collection`, as `explain` takes them."""
    kind, name = next(iter(command.items()))
    if name != collection:
        return
    match kind:
        case "find":
            yield {"find": name, "filter": command["filter"], "sort": command.get("sort", {})}
        case "aggregate" if "$match" in command["pipeline"][0]:
            yield {"aggregate": name, "pipeline": command["pipeline"], "cursor": {}}
        case "update" | "delete":
            yield from ({kind: name, f"{kind}s": [each]} for each in command[f"{kind}s"])


async def _stages(database: Database, query: Command) -> Iterator[str]:
    return _stages_in(await database.command("explain", query, verbosity="queryPlanner"))


def _stages_in(plan: Any) -> Iterator[str]:
    if isinstance(plan, Mapping):
        if isinstance(plan.get("stage"), str):
            yield plan["stage"]
        plan = list(plan.values())
    if isinstance(plan, list):
        for part in plan:
            yield from _stages_in(part)


async def test_c2_documents_of_one_knowledge_base_are_swapped_at_the_same_time(
    tenant: Tenant, indexer: Replica, rival: Replica, rival_command_log: CommandLog
) -> None:
    """Elsewhere each swap counted the whole knowledge base again and wrote its row: two in five were undone."""
    kb = await tenant.create_kb("a")
    stripe = kb_slots.row_id(kb_id=kb.kb_id, document_id="d")
    neighbour = next(
        name for name in map(str, range(100)) if kb_slots.row_id(kb_id=kb.kb_id, document_id=name) != stripe
    )
    await rival.publish(tenant.ocr(neighbour, paragraph(2)))
    await indexer.publish(tenant.ocr("d", paragraph(1)))
    swapped: list[str] = []

    async def swap_neighbour() -> None:
        if not swapped:
            swapped.append(neighbour)
            rival_command_log.clear()
            await rival.handle_commands()
            await tenant.assert_holds(kb, {neighbour: paragraph(2)})
            assert rival_command_log.write_conflicts == 0

    async with failpoints.during("swap.before_commit", swap_neighbour):
        await indexer.handle_commands()

    assert swapped
    assert f"update {knowledge_bases.NAME}" not in rival_command_log.names()
    await tenant.assert_holds(kb, {"d": paragraph(1), neighbour: paragraph(2)})
    await tenant.assert_settled()


async def test_c4_a_vector_takes_four_bytes_a_dimension_wherever_it_is_kept(tenant: Tenant, indexer: Replica) -> None:
    """Elsewhere vectors were arrays of doubles: 20 KB where 6 are enough, twice."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", paragraph(1)))
    await indexer.work()

    chunk = await tenant.database[kb.vector_collection].find_one({"document_id": "d"})
    cached = await tenant.database[embedding_cache.NAME].find_one({"scope": tenant.organization_id})
    for row in (chunk, cached):
        assert row is not None
        assert isinstance(row["embedding"], Binary)
        assert (row["embedding"].subtype, len(row["embedding"])) == (9, 4 * DIMENSIONS + 2)
    assert chunk is not None
    assert len(bson.encode(chunk)) <= len(chunk["chunk_text"].encode()) + 4 * DIMENSIONS + 800


async def test_c6_the_commands_for_a_document_do_not_grow_with_its_chunks(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    """Elsewhere each chunk was looked up and stored by itself: 150 commands for a document of 44."""
    kb = await tenant.create_kb("a")

    async def commands_for(document_id: str, *paragraphs: int) -> list[str]:
        command_log.clear()
        await indexer.publish(tenant.ocr(document_id, text_of(*paragraphs)))
        await indexer.work()
        return command_log.names()

    few = await commands_for("few", 1)
    many = await commands_for("many", *range(2, 46))

    # Some come as time passes, such as leases and looks whether the provider is out; one for each chunk would be 43.
    assert len(many) < len(few) + 22
    assert await tenant.database[kb.vector_collection].count_documents({}) == 45


async def test_c7_neighbours_of_a_hit_are_read_by_an_index_and_without_their_vectors(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    """Elsewhere all chunks of each hit's document came with their vectors: 217 times the bytes."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(*range(50))), tenant.ocr("other", text_of(*range(50, 100))))
    await indexer.work()
    chunks = vectors.chunks_of(tenant.database, kb)
    command_log.clear()

    async with tenant.database.client.start_session(snapshot=True) as session:
        rows = await found_chunks.read_ranges(chunks, session, [("d", 9, 11), ("d", 30, 31)])

    assert [row["chunk_index"] for row in rows] == [9, 10, 11, 30, 31]
    assert all("embedding" not in row for row in rows)
    (asked,) = command_log.commands
    query = {name: asked[name] for name in ("find", "filter", "projection", "sort")}
    spent = (await tenant.database.command("explain", query, verbosity="executionStats"))["executionStats"]
    assert (spent["nReturned"], spent["totalDocsExamined"]) == (5, 5)


async def test_c8_a_pass_over_what_is_right_costs_no_more_commands_for_more_documents(
    tenant: Tenant, indexer: Replica, rival: Replica, rival_command_log: CommandLog
) -> None:
    """Elsewhere a pass asked twice for each document, and read the texts of those that were missing."""
    await tenant.create_kb("a")

    async def commands_of_a_pass() -> list[str]:
        await indexer.work()
        rival_command_log.clear()
        await rival.full_pass()
        ours = [command for command in rival_command_log.commands if tenant.organization_id in repr(command)]
        return [f"{kind} {command[kind]}" for command in ours for kind in [next(iter(command))]]

    await indexer.publish(tenant.ocr("d", paragraph(1)))
    few = await commands_of_a_pass()
    await indexer.publish(*(tenant.ocr(f"d{n}", paragraph(1)) for n in range(20)))
    many = await commands_of_a_pass()

    assert few
    assert many == few
    assert not any(document_texts.NAME in name for name in many)


async def test_c8_a_drifted_document_is_queued_once_however_often_it_is_found(tenant: Tenant, indexer: Replica) -> None:
    """Elsewhere each pass before the work was done queued it once more."""
    await indexer.publish(*(tenant.ocr(f"d{n}", paragraph(n)) for n in range(5)))
    kb = await tenant.create_kb("a")

    for _ in range(3):
        await indexer.full_pass()

    asked = [
        message.key for message in indexer.producer.sent if message.key and message.key.startswith(kb.kb_id.encode())
    ]
    assert len(asked) == len(set(asked)) == 5
    await indexer.work()
    await tenant.assert_holds(kb, {f"d{n}": paragraph(n) for n in range(5)})


async def test_c9_a_text_is_never_chunked_in_the_thread_of_the_event_loop(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere a long document stopped everything else in its process for seconds."""
    kb = await tenant.create_kb("a")
    threads: set[int] = set()

    def noted(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return advance(*arguments)

    monkeypatch.setattr(chunk_document, "advance", noted)
    await indexer.publish(tenant.ocr("d", text_of(1, 2)))
    await indexer.work()

    assert threads
    assert threading.get_ident() not in threads
    await tenant.assert_holds(kb, {"d": text_of(1, 2)})
