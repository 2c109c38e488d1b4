"""What a run searches for is written down as its own."""

from kb_shared.mongo import query_log
from kb_shared.mongo.database import Database
from tests.integration.runs.conftest import FENCE, Author
from tests.integration.runs.test_runs import QUESTION, search
from tests.integration.search.knowledge import Knowledge
from tests.scripted_model import ScriptedModel
from tests.waiting import until


async def test_searches_of_a_run_are_an_agents_and_name_the_run(
    author: Author, knowledge: Knowledge, scripted: ScriptedModel, search_database: Database
) -> None:
    await scripted.says({"tool_calls": [search(FENCE)]}, {"text": "So [1]."})
    run = await author.run(messages=QUESTION, kb_ids=[knowledge.kb.kb_id], model=scripted.name)
    log = search_database[query_log.NAME]

    async def written() -> bool:
        return await log.count_documents({}) > 0

    await until(written)
    [row] = await log.find({}).to_list()
    assert (row["origin"], row["run_id"], row["query"]) == ("agent", run["run_id"], FENCE)
    assert row["key_id"] == author.key.split("_")[1]
