"""Route of the preview of a KB."""

from kb_api.dependencies import KnowledgeBasePreviewer, Reader
from kb_contracts.api.previews import KnowledgeBasePreview, PreviewKnowledgeBase
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router

router = organization_router("knowledge bases")


@router.post(
    "/knowledge-bases/preview",
    operation_id="knowledge_bases.preview",
    summary="Preview a knowledge base",
    response_model=KnowledgeBasePreview,
    responses=responses(
        "chunker-unavailable",
        "preview-unavailable",
        "provider-key-missing",
        "reserved-id",
        "unknown-model",
        "unknown-tag",
    ),
)
async def preview(
    previewer: KnowledgeBasePreviewer, caller: Reader, body: PreviewKnowledgeBase
) -> KnowledgeBasePreview:
    """Return what a knowledge base with these settings would bring, and the chunks of a text. Nothing is stored.

    Nothing is charged either. The documents are chunked as the indexer would chunk them. If they are many or long, the
    numbers come from a random sample, with `is_exact` false and their error.
    """
    return await previewer.preview(caller, body)
