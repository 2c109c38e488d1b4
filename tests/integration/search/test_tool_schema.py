from datetime import UTC, datetime

from kb_search.runs.knowledge_tools import KnowledgeTool
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database, in_transaction
from tests.integration.search.conftest import NewSearcher
from tests.integration.search.knowledge import Knowledge


async def test_the_tool_of_a_knowledge_base_is_what_a_run_gives_to_its_model_and_its_calls_are_searches(
    knowledge: Knowledge, search_database: Database, new_searcher: NewSearcher
) -> None:
    fields = {"filterable_metadata": ["year", "pages"], "min_score": 0.25}
    kb = await knowledge_bases.get(search_database, knowledge.kb.key)
    await in_transaction(
        search_database, lambda session: knowledge_bases.change(search_database, session, kb, fields=fields)
    )
    reader = await new_searcher(scope=Scope.READ)
    path = knowledge.path.removesuffix("/search") + "/tool"
    tool = (await reader.http.get(path, headers={"Authorization": f"Bearer {reader.key}"})).raise_for_status().json()
    name = tool["function"]["name"]
    description = tool["function"]["description"]
    ours = KnowledgeTool(name, description, [kb.kb_id], min_score=0.25, filterable_metadata=("year", "pages"))
    assert tool == ours.describe()
    assert name.startswith("search_")
    parameters = tool["function"]["parameters"]
    assert "year, pages" in parameters["properties"]["metadata_filter"]["description"]
    assert list(parameters["properties"]) == ["query", "top_k", "metadata_filter"], "what a model can fill well"
    arguments = {
        "query": "leave",
        "top_k": 3,
        "min_score": 0.1,
        "metadata_filter": {"year": 2025},
        "coalesce_neighbors": 1,
        "upload_date_from": datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
    }
    assert parameters["properties"].keys() <= arguments.keys()
    searcher = await new_searcher()
    assert (await searcher.post(knowledge, arguments)).status_code == 200
