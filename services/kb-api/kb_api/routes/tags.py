from kb_api.delete_tag import delete_tag
from kb_api.dependencies import Database, Reader, Settings, Writer
from kb_api.reserved_ids import require_own_tag_ids
from kb_api.routes.knowledge_bases import NameSearch
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.tags import PutTag, RenameTag, TagList, TagView
from kb_contracts.identifiers import Identifier
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.mongo import documents, knowledge_bases, tags
from kb_shared.mongo.tags import Tag

router = organization_router("tags")


@router.post(
    "/tags",
    operation_id="tags.put",
    summary="Create or rename a tag",
    status_code=201,
    response_model=TagView,
    responses=responses("quota-exceeded", "reserved-id"),
)
async def put(database: Database, settings: Settings, caller: Writer, body: PutTag) -> TagView:
    """Create a tag, so that a knowledge base can use it before any document does, or rename an existing one."""
    require_own_tag_ids([body.tag_id])
    if await tags.find_unknown(database, caller.organization_id, tag_ids=[body.tag_id]):
        await require_quota(
            lambda: tags.count(database, caller.organization_id),
            settings.max_tags,
            things="tags",
            setting="KB_MAX_TAGS",
        )
    await tags.put(database, caller.organization_id, Tag(body.tag_id, body.name))
    return (await _views(database, caller.organization_id, [Tag(body.tag_id, body.name)]))[0]


@router.put(
    "/tags/{tag_id}",
    operation_id="tags.put_by_id",
    summary="Create or rename a tag by its id",
    response_model=TagView,
    responses=responses("quota-exceeded", "reserved-id"),
)
async def put_by_id(
    database: Database, settings: Settings, caller: Writer, tag_id: Identifier, *, body: RenameTag
) -> TagView:
    """Create a tag with this id, or rename the existing one."""
    return await put(database, settings, caller, PutTag(tag_id=tag_id, name=body.name))


@router.get("/tags", operation_id="tags.list", summary="List tags", response_model=TagList)
async def list_all(
    database: Database, caller: Reader, *, name_search: NameSearch = None, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT
) -> TagList:
    """List the tags of the organization, without deleted ones."""
    found, total_count = await tags.find_page(
        database, caller.organization_id, name_search=name_search, skip=skip, limit=limit
    )
    return TagList(tags=await _views(database, caller.organization_id, found), total_count=total_count)


@router.delete(
    "/tags/{tag_id}",
    operation_id="tags.delete",
    summary="Delete a tag",
    response_model=MessageResponse,
    responses=responses("reserved-id", "tag-in-use"),
)
async def delete(database: Database, caller: Writer, tag_id: str) -> MessageResponse:
    """Delete a tag that no knowledge base and no document has. `POST /tags` creates it again."""
    require_own_tag_ids([tag_id])
    await delete_tag(database, caller, tag_id)
    return MessageResponse(message="Tag deleted successfully")


async def _views(database: Database, organization_id: str, found: list[Tag]) -> list[TagView]:
    kbs = await knowledge_bases.count_by_tag(database, organization_id, tag_ids={tag.tag_id for tag in found})
    return [
        TagView(
            tag_id=tag.tag_id,
            name=tag.name,
            document_count=await documents.count_with_tag(database, organization_id, tag_id=tag.tag_id),
            knowledge_base_count=kbs.get(tag.tag_id, 0),
        )
        for tag in found
    ]
