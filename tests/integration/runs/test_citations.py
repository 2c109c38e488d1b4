"""Chunks that the model of a run saw, and which of them its answer cites, are rows that reports count."""

from datetime import UTC, datetime, timedelta

from kb_shared.mongo import citations, documents, query_log
from kb_shared.mongo.database import Database, Row
from tests.integration.runs.conftest import BREAD, FENCE, Author
from tests.integration.runs.test_runs import QUESTION, search
from tests.integration.search.conftest import ORGANIZATION
from tests.integration.search.knowledge import DocumentToIndex, Knowledge
from tests.scripted_model import ScriptedModel
from tests.waiting import until


async def rows_of(database: Database) -> list[Row]:
    return await database[citations.NAME].find({}).sort("document_id", 1).to_list()


async def test_each_chunk_that_the_model_saw_is_a_row_and_only_cited_ones_count_as_cited(
    author: Author, knowledge: Knowledge, scripted: ScriptedModel, search_database: Database
) -> None:
    # The second search returns the same chunks again: still one row each.
    await scripted.says({"tool_calls": [search(FENCE)]}, {"tool_calls": [search(BREAD)]}, {"text": "So it is [1]."})
    run = await author.run(messages=QUESTION, kb_ids=[knowledge.kb.kb_id], model=scripted.name)

    rows = await rows_of(search_database)

    cited = run["citations"][0]
    assert [(row["document_id"], row["in_context"], row["cited"]) for row in rows] == [
        ("bread", True, cited["document_id"] == "bread"),
        ("fence", True, cited["document_id"] == "fence"),
    ]
    assert {row["run_id"] for row in rows} == {run["run_id"]}
    assert all(row["expires_at"] - row["answered_at"] == timedelta(days=90) for row in rows)


async def test_a_cited_passage_names_the_copies_of_its_document_as_a_search_does(
    author: Author, knowledge: Knowledge, scripted: ScriptedModel
) -> None:
    await knowledge.index(DocumentToIndex("fence-2019", [FENCE], name="fence (old).md"))
    await scripted.says({"tool_calls": [search(FENCE, top_k=1)]}, {"text": "So it is [1]."})
    run = await author.run(messages=QUESTION, kb_ids=[knowledge.kb.kb_id], model=scripted.name)
    found = await author.ask("POST", f"/knowledge-bases/{knowledge.kb.kb_id}/search", {"query": FENCE, "top_k": 1})
    [result] = found.json()["results"]
    assert [each["document_id"] for each in result["also_in"]] == ["fence-2019"]
    stored = (await author.ask("GET", f"/runs/{run['run_id']}")).json()
    [cited] = stored["citations"]
    assert cited["also_in"] == stored["tool_calls"][0]["passages"][0]["also_in"] == result["also_in"]


async def test_reports_count_answers_and_what_models_saw_and_name_what_is_never_cited(
    author: Author, knowledge: Knowledge, scripted: ScriptedModel
) -> None:
    await knowledge.index(DocumentToIndex("entry-7", ["Salt is stored dry."], name="Salt"))
    for _ in range(2):
        await scripted.says({"tool_calls": [search(FENCE, top_k=2)]}, {"text": "So it is [1]."})
        await author.run(messages=QUESTION, kb_ids=[knowledge.kb.kb_id], model=scripted.name)

    async def report(**query: str) -> list[tuple[str, str, int, int, int]]:
        parameters = "&".join(f"{name}={value}" for name, value in query.items())
        answer = (await author.ask("GET", f"/insights/citations?{parameters}")).json()
        assert answer["total_count"] == len(answer["documents"])
        names = ("document_id", "document_name", "in_context", "citations", "runs")
        return [tuple(shown[name] for name in names) for shown in answer["documents"]]

    [cited] = await report()
    assert cited == ("fence", "fence.md", 2, 2, 2)
    never = await report(by="never_cited")
    assert {shown[0] for shown in never} == {"bread", "entry-7"}
    assert never[0][2:] == (2, 0, 0)
    assert [shown[0] for shown in await report(by="never_cited", kind="entries")] == ["entry-7"]
    assert [shown[0] for shown in await report(by="never_cited", kind="documents")] == ["bread"]
    assert await report(document_id="fence") == [cited]
    assert await report(document_id="bread") == await report(document_id="fence", kind="entries") == []
    assert [shown[0] for shown in await report(by="never_cited", document_id="bread", kind="documents")] == ["bread"]
    assert await report(origin="console") == []
    assert await report(agent_id="another") == []
    assert await report(kb_id="another") == []
    assert await report(to=(datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")) == []


async def test_searches_of_an_agent_are_reported_apart_from_others(
    author: Author, knowledge: Knowledge, scripted: ScriptedModel, search_database: Database
) -> None:
    agent = await author.make("/agents", name="Facts", model=scripted.name, auto_search=True)
    await author.make(f"/agents/{agent['agent_id']}/knowledge-base-tools", kb_id=knowledge.kb.kb_id)
    await scripted.says({"text": "So it is [1]."}, {"tool_calls": [search(BREAD)]}, {"text": "So it is [1]."})
    await author.run(messages=QUESTION, agent_id=agent["agent_id"])
    await author.run(messages=QUESTION, kb_ids=[knowledge.kb.kb_id], model=scripted.name)

    async def both_are_logged() -> bool:
        return await search_database[query_log.NAME].count_documents({}) == 2

    await until(both_are_logged)
    for query, queries in (
        ("", {QUESTION[-1]["content"], BREAD}),
        (f"?agent_id={agent['agent_id']}", {"What is a fence?"}),
    ):
        shown = (await author.ask("GET", f"/insights/queries{query}")).json()
        assert {each["query"] for each in shown["queries"]} == queries


async def test_citations_of_a_conversation_are_deleted_with_it(
    author: Author, knowledge: Knowledge, scripted: ScriptedModel, search_database: Database
) -> None:
    thread = await author.make("/threads", title="Fences")
    await scripted.says({"tool_calls": [search(FENCE)]}, {"text": "So it is [1]."})
    await author.run(messages=QUESTION, kb_ids=[knowledge.kb.kb_id], model=scripted.name, thread_id=thread["thread_id"])
    assert await rows_of(search_database)

    await author.ask("DELETE", f"/threads/{thread['thread_id']}")

    assert await rows_of(search_database) == []


async def test_a_stored_run_keeps_the_text_of_a_deleted_document_and_says_that_it_is_deleted(
    author: Author, knowledge: Knowledge, scripted: ScriptedModel, search_database: Database
) -> None:
    await scripted.says({"tool_calls": [search(FENCE)]}, {"text": "So it is [1]."})
    run = await author.run(messages=QUESTION, kb_ids=[knowledge.kb.kb_id], model=scripted.name)
    assert run["citations"][0]["document_deleted"] is False

    row = {"alive": False, "deleted_revision": 2, "document_id": "fence"}
    await search_database[documents.NAME].insert_one(
        {"_id": f"{ORGANIZATION}/fence", "organization_id": ORGANIZATION, **row}
    )

    for shown in (
        (await author.ask("GET", f"/runs/{run['run_id']}")).json(),
        (await author.ask("GET", "/runs")).json()["runs"][0],
    ):
        [citation] = shown["citations"]
        assert (citation["document_deleted"], citation["text"]) == (True, FENCE)
