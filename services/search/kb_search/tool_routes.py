from kb_contracts.api.tool_schemas import ToolSchemaView
from kb_search.authoring.agent_tools import default_tool_description, default_tool_name
from kb_search.dependencies import Database, Reader
from kb_search.runs.knowledge_tools import KnowledgeTool
from kb_shared.http.routing import organization_router
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.keys import KnowledgeBaseKey

router = organization_router("knowledge bases")


@router.get(
    "/knowledge-bases/{kb_id}/tool", operation_id="knowledge_bases.get_tool", summary="Get the tool of a knowledge base"
)
async def get_tool(database: Database, caller: Reader, kb_id: str) -> ToolSchemaView:
    """Return the function-calling schema of a search in this knowledge base, ready to paste.

    Name, description and parameters are those that an agent of this system gives to its model. The arguments of a call
    are the body of `POST /knowledge-bases/{kb_id}/search`.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    tool = KnowledgeTool(
        name=default_tool_name(kb.name, ()),
        description=default_tool_description(kb.name, kb.description),
        kb_ids=[kb.kb_id],
        min_score=kb.min_score,
        filterable_metadata=kb.filterable_metadata,
    )
    return ToolSchemaView.model_validate(tool.describe())
